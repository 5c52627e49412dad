#pragma once

#include "cuda/device/launch.cuh"
#include "cuda/device/tile_layout.cuh"

namespace ingot::cuda {

struct LinearTilesParams {
  const void* x;         // bf16 [rows, columns]
  const void* weight;    // [weight_rows, columns] in tiles
  const float* bias;     // [weight_rows], or null
  const void* residual;  // [rows, outputs], or null
  void* out;             // [rows, outputs]
  int rows;
  int columns;
  int weight_rows;
  int swiglu;
  // How blocks share the work; no bit of a result depends on it.
  int row_blocks;   // of the weight a block takes at once: 1 or 2
  int token_tiles;  // of 8 rows of x that it takes at once: 1, 2 or 4
  int steps;        // pieces of each slice in a slot of the ring
  int slots;
  int window;  // slots whose weights may be on their way at once
};

// Warps that multiply, a slice each, and that load; twelve leave a thread 168 registers, one more
// 128.
inline constexpr int kLinearTilesConsumers = kSlices;
inline constexpr int kLinearTilesLoaders = 4;
inline constexpr int kLinearTilesThreads = (kLinearTilesConsumers + kLinearTilesLoaders) * 32;
inline constexpr int kTokenTile = 8;
inline constexpr int kXRowBytes = kTileColumns * 2;  // of a row's piece in shared memory

// Shared memory: the slots, each with weights [row_blocks][steps][kSlices] pieces and then x
// [steps][kSlices][rows] of 128 bytes; two buffers of partial sums; three barriers a slot.
struct LinearTilesShared {
  int weight_bytes;  // of a slot and row block
  int slot_bytes;
  int sums_bytes;  // of a buffer
  constexpr int total(int slots) const { return slots * (slot_bytes + 3 * 8) + 2 * sums_bytes; }
};
constexpr LinearTilesShared linear_tiles_shared(TileFormat format, const LinearTilesParams& p) {
  const int rows = p.rows < p.token_tiles * kTokenTile ? p.rows : p.token_tiles * kTokenTile;
  const int weight_bytes = p.steps * kSlices * format.piece_bytes();
  return {.weight_bytes = weight_bytes,
          .slot_bytes = p.row_blocks * weight_bytes + p.steps * kSlices * rows * kXRowBytes,
          .sums_bytes = kSlices * p.row_blocks * 32 * 16};
}

// A block's unit of work: row blocks of the weight times tokens.
constexpr long long linear_tiles_items(const LinearTilesParams& p) {
  const long long groups = (tile_row_blocks(p.weight_rows) + p.row_blocks - 1) / p.row_blocks;
  const int tokens = p.token_tiles * kTokenTile;
  return groups * ((p.rows + tokens - 1) / tokens);
}

}  // namespace ingot::cuda
