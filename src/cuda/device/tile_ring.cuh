#pragma once

#include "cuda/device/linear_tiles_params.cuh"
#include "cuda/device/ring.cuh"

// The ring of slots between the warps of a block that load and those that multiply.
namespace ingot::cuda {

// Who loads (device/tile_loaders.cuh): one warp weights and the others x, or every warp both.
inline constexpr bool kLoadApart = TILE_BITS > 4;
inline constexpr int kWeightLoaders = kLoadApart ? 1 : kLinearTilesLoaders;
inline constexpr int kXLoaders = kLoadApart ? kLinearTilesLoaders - 1 : kLinearTilesLoaders;

// What a block's warps share, and where its items lie.
struct TileRing {
  const LinearTilesParams& p;
  LinearTilesShared sizes;
  u32 memory;    // of the slots
  u32 barriers;  // of the slots: weights are here, x is here, nobody reads any more
  TileSlices slices;
  int steps;         // of a slice, the longest
  int token_blocks;  // items of a row group
  int items;

  __device__ TileRing(const LinearTilesParams& params, u32 shared)
      : p(params),
        sizes(linear_tiles_shared(kTileFormat, params)),
        memory(shared),
        barriers(shared + params.slots * sizes.slot_bytes + 2 * sizes.sums_bytes),
        slices{tile_pieces(params.columns)},
        steps((slices.pieces + kSlices - 1) / kSlices),
        token_blocks((params.rows + tokens_at_once() - 1) / tokens_at_once()),
        items(static_cast<int>(linear_tiles_items(params))) {}

  __device__ int tokens_at_once() const { return p.token_tiles * kTokenTile; }
  __device__ int first_token(int item) const { return item % token_blocks * tokens_at_once(); }
  __device__ int tokens(int item) const {
    return min(tokens_at_once(), p.rows - first_token(item));
  }
  __device__ int first_block(int item) const { return item / token_blocks * p.row_blocks; }

  __device__ u32 weights(int slot) const { return memory + slot * sizes.slot_bytes; }
  __device__ u32 x(int slot) const { return weights(slot) + p.row_blocks * sizes.weight_bytes; }
  __device__ u32 weights_here(int slot) const { return barriers + slot * 8; }
  __device__ u32 x_here(int slot) const { return barriers + (p.slots + slot) * 8; }
  __device__ u32 free(int slot) const { return barriers + (2 * p.slots + slot) * 8; }
  // Bytes of x in shared memory of one piece: [tokens][128].
  __device__ int x_piece_bytes() const { return min(p.rows, tokens_at_once()) * kXRowBytes; }

  // By one thread, before all others come.
  __device__ void init() const {
    for (int slot = 0; slot < p.slots; ++slot) {
      barrier_init(weights_here(slot), kHasBulkCopies ? 1 : kWeightLoaders * 32);
      barrier_init(x_here(slot), kXLoaders * 32);
      barrier_init(free(slot), kLinearTilesConsumers);
    }
    barriers_ready();
  }
};

// A place in the ring that goes round.
struct RingCursor {
  int slot = 0;
  u32 phase = 0;
  __device__ void next(int slots) {
    if (++slot < slots) return;
    slot = 0;
    phase ^= 1;
  }
};

}  // namespace ingot::cuda
