#include "cuda/kernels/rope.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

namespace ingot::cuda {

BindingOrReason bind_rope(const OpCall& call) {
  const auto attrs = read_attrs<RopeAttrs>(*call.attrs);
  Binder binder("rope", call);
  binder.number("HEADS", columns_of(call.operands[0]) / attrs.head_dim);
  binder.number("HEAD_DIM", attrs.head_dim);
  binder.number("ROTARY_DIM", attrs.rotary_dim);
  binder.number("INTERLEAVED", attrs.interleaved);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.vector(2);
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    launch(rope_launch(rows.at(args.dims)), RopeParams{.x = input(args, 0),
                                                       .positions = input<int>(args, 1),
                                                       .inv_freq = input<float>(args, 2),
                                                       .rope_row = input<int>(args, 3),
                                                       .out = output(args, 0),
                                                       .scale = static_cast<float>(attrs.scale)});
  });
}

}  // namespace ingot::cuda
