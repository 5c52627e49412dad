#include "cuda/kernels/gather_rows.cu"

#include "cuda/binding.h"

namespace ingot::cuda {

BindingOrReason bind_gather_rows(const OpCall& call) {
  Binder binder("gather_rows", call);
  binder.number("WIDTH", columns_of(call.operands[0]));
  binder.type("X_TYPE", call.operands[0].dtype);
  const Dim rows = call.results[0].dims[0];
  return binder.finish([rows](const KernelArgs& args, const Launcher& launch) {
    launch(
        gather_rows_launch(rows.at(args.dims)),
        GatherRowsParams{.x = input(args, 0), .rows = input<int>(args, 1), .out = output(args, 0)});
  });
}

}  // namespace ingot::cuda
