#include "cuda/kernels/embed.cu"

#include "cuda/binding.h"

namespace ingot::cuda {

BindingOrReason bind_embed(const OpCall& call) {
  Binder binder("embed", call);
  binder.number("WIDTH", columns_of(call.operands[1]));
  // Rows say where the scales of tiles lie.
  if (binder.in_tiles(1)) binder.number("WEIGHT_ROWS", call.operands[1].dims[0].offset);
  binder.type("OUT_TYPE", call.results[0].dtype);
  binder.weight(1);
  const Dim rows = call.results[0].dims[0];
  return binder.finish([rows](const KernelArgs& args, const Launcher& launch) {
    check_aligned(input(args, 1));
    launch(
        embed_launch(rows.at(args.dims)),
        EmbedParams{.ids = input<int>(args, 0), .table = input(args, 1), .out = output(args, 0)});
  });
}

}  // namespace ingot::cuda
