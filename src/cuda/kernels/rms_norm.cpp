#include "cuda/kernels/rms_norm.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

namespace ingot::cuda {

BindingOrReason bind_rms_norm(const OpCall& call) {
  const auto attrs = read_attrs<RmsNormAttrs>(*call.attrs);
  Binder binder("rms_norm", call);
  binder.number("WIDTH", columns_of(call.operands[0]));
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.vector(1);
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    launch(rms_norm_launch(rows.at(args.dims)),
           RmsNormParams{.x = input(args, 0),
                         .weight = input<float>(args, 1),
                         .out = output(args, 0),
                         .eps = static_cast<float>(attrs.eps)});
  });
}

}  // namespace ingot::cuda
