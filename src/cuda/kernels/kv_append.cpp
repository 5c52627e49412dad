#include "cuda/kernels/kv_append.cu"

#include "cuda/binding.h"

namespace ingot::cuda {

BindingOrReason bind_kv_append(const OpCall& call) {
  const StateSpec& state = call.operands[3].state;
  Binder binder("kv_append", call);
  binder.number("KV_HEADS", state.kv_heads);
  binder.number("HEAD_DIM", state.head_dim);
  binder.number("PAGE_TOKENS", call.page_tokens);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.state("KV_TYPE", state.dtype);
  binder.require(call.operands[1].dtype == call.operands[0].dtype, "k and v differ in type");
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([rows](const KernelArgs& args, const Launcher& launch) {
    launch(kv_append_launch(rows.at(args.dims)), KvAppendParams{.k = input(args, 0),
                                                                .v = input(args, 1),
                                                                .slots = input<int>(args, 2),
                                                                .pages = args.operands[3]});
  });
}

}  // namespace ingot::cuda
