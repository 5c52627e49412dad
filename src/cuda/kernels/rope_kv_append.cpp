#include "cuda/kernels/rope_kv_append.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

namespace ingot::cuda {

BindingOrReason bind_rope_kv_append(const OpCall& call) {
  const auto attrs = read_attrs<RopeKvAppendAttrs>(*call.attrs);
  Binder binder("rope_kv_append", call);
  binder.number("HEADS", attrs.heads);
  binder.number("KV_HEADS", attrs.kv_heads);
  binder.number("HEAD_DIM", attrs.rope.head_dim);
  binder.number("ROTARY_DIM", attrs.rope.rotary_dim);
  binder.number("INTERLEAVED", attrs.rope.interleaved);
  binder.number("PAGE_TOKENS", call.page_tokens);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.state("KV_TYPE", call.operands[5].state.dtype);
  binder.vector(2);
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    launch(rope_kv_append_launch(rows.at(args.dims)),
           RopeKvAppendParams{.qkv = input(args, 0),
                              .positions = input<int>(args, 1),
                              .inv_freq = input<float>(args, 2),
                              .rope_row = input<int>(args, 3),
                              .slots = input<int>(args, 4),
                              .pages = args.operands[5],
                              .q = output(args, 0),
                              .scale = static_cast<float>(attrs.rope.scale)});
  });
}

}  // namespace ingot::cuda
