#include "cuda/kernels/linear.cu"

#include "cuda/binding.h"
#include "cuda/weight_tiles.h"
#include "ops/attrs.h"

#include <algorithm>

namespace ingot::cuda {
namespace {

// Bytes of weights on their way to a block: fewer do not reach the memory's bandwidth, more make
// other loads wait.
constexpr int kBytesOnTheWay = 64 << 10;
constexpr int kMaxSlots = 24;

// Turns of the busiest multiprocessor with `row_blocks` at once, in row blocks.
long long turns(LinearTilesParams p, int row_blocks, int multiprocessors) {
  p.row_blocks = row_blocks;
  return (linear_tiles_items(p) + multiprocessors - 1) / multiprocessors * row_blocks;
}

int slots_of(TileFormat format, const LinearTilesParams& p, int shared_bytes) {
  const LinearTilesShared one = linear_tiles_shared(format, p);
  return std::min(kMaxSlots, (shared_bytes - one.total(0)) / (one.total(1) - one.total(0)));
}

// How blocks share the work: two row blocks at once read x half as often and are worth half as many
// turns again, a slot of few bytes costs a barrier for little, and a ring wants three slots.
void share_out(TileFormat format, const GpuLimits& gpu, LinearTilesParams& p) {
  p.token_tiles = p.rows <= kTokenTile ? 1 : p.rows <= 2 * kTokenTile ? 2 : 4;
  const long long one = turns(p, 1, gpu.multiprocessors), two = turns(p, 2, gpu.multiprocessors);
  p.row_blocks = p.swiglu || 2 * two <= 3 * one ? 2 : 1;
  const int most_steps = p.rows <= 4 ? 4 : p.rows <= 16 ? 2 : 1;
  p.steps = format.bits == 4 ? most_steps : format.bits == 8 && p.rows <= 4 ? 2 : 1;
  while ((p.slots = slots_of(format, p, gpu.shared_bytes)) < 3) {
    if (p.steps > 1)
      p.steps = 1;
    else if (p.row_blocks > 1 && !p.swiglu)
      p.row_blocks = 1;
    else if (p.token_tiles > 1)
      p.token_tiles /= 2;
    else
      break;
  }
  const int slot_bytes = p.row_blocks * linear_tiles_shared(format, p).weight_bytes;
  p.window = std::clamp((kBytesOnTheWay + slot_bytes - 1) / slot_bytes, 1, p.slots);
}

struct LinearShape {
  LinearAttrs attrs;
  Dim rows;
  std::int64_t weight_rows;
  std::int64_t columns;
  std::size_t residual;  // operand, when there is one
};

BindingOrReason bind_tiles(const OpCall& call, const LinearShape& shape, Binder& binder) {
  const TileFormat format = *find_tile_format(call.operands[1].format->name);
  binder.number("TENSOR_TILES", 1);
  binder.type("OUT_TYPE", call.results[0].dtype);
  binder.weight(1);
  binder.large_shared();
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    LinearTilesParams p{
        .x = input(args, 0),
        .weight = input(args, 1),
        .bias = shape.attrs.bias ? input<float>(args, 2) : nullptr,
        .residual = shape.attrs.residual ? input(args, shape.residual) : nullptr,
        .out = output(args, 0),
        .rows = static_cast<int>(shape.rows.at(args.dims)),
        .columns = static_cast<int>(shape.columns),
        .weight_rows = static_cast<int>(shape.weight_rows),
        .swiglu = shape.attrs.swiglu,
        .row_blocks = 1,
        .token_tiles = 1,
        .steps = 1,
        .slots = 1,
        .window = 1,
    };
    check_aligned(p.x);
    check_aligned(p.weight);
    if (p.rows == 0) return;
    const GpuLimits gpu = launch.limits();
    share_out(format, gpu, p);
    const auto blocks = std::min<long long>(linear_tiles_items(p), gpu.multiprocessors);
    const int shared = linear_tiles_shared(format, p).total(p.slots);
    launch({.grid_x = static_cast<unsigned>(blocks),
            .block = kLinearTilesThreads,
            .shared = static_cast<unsigned>(shared),
            .early = true},
           p);
  });
}

BindingOrReason bind_plain(const OpCall& call, const LinearShape& shape, Binder& binder) {
  const LinearAttrs& attrs = shape.attrs;
  binder.number("WIDTH", shape.columns);
  binder.number("WEIGHT_ROWS", shape.weight_rows);
  binder.number("SWIGLU", attrs.swiglu);
  binder.number("INTERLEAVE", kGateUpInterleave);
  binder.number("HAS_BIAS", attrs.bias);
  binder.number("HAS_RESIDUAL", attrs.residual);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.type("OUT_TYPE", call.results[0].dtype);
  binder.type("RESIDUAL_TYPE", call.operands[attrs.residual ? shape.residual : 0].dtype);
  binder.weight(1);
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    check_aligned(input(args, 0));
    check_aligned(input(args, 1));
    const std::int64_t m = shape.rows.at(args.dims);
    launch(linear_launch(m, shape.weight_rows),
           LinearParams{.x = input(args, 0),
                        .weight = input(args, 1),
                        .bias = shape.attrs.bias ? input<float>(args, 2) : nullptr,
                        .residual = shape.attrs.residual ? input(args, shape.residual) : nullptr,
                        .out = output(args, 0),
                        .rows = static_cast<int>(m)});
  });
}

}  // namespace

BindingOrReason bind_linear(const OpCall& call) {
  const auto attrs = read_attrs<LinearAttrs>(*call.attrs);
  const LinearShape shape{.attrs = attrs,
                          .rows = call.operands[0].dims[0],
                          .weight_rows = call.operands[1].dims[0].offset,
                          .columns = columns_of(call.operands[1]),
                          .residual = std::size_t{attrs.bias ? 3u : 2u}};
  Binder binder("linear", call);
  if (attrs.bias) binder.vector(2);
  binder.require(!attrs.swiglu || shape.weight_rows % (2 * kGateUpInterleave) == 0,
                 "gate and up rows do not interleave by 16");
  const bool tensor = binder.in_tiles(1) && call.operands[0].dtype == DType::kBF16;
  return tensor ? bind_tiles(call, shape, binder) : bind_plain(call, shape, binder);
}

}  // namespace ingot::cuda
