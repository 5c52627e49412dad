#pragma once

#include "cuda/device/quant_bytes.cuh"
#include "cuda/device/tile_layout.cuh"

// A matrix's numbers one by one, in rows or in tiles. Defines: WEIGHT_ROWS, WIDTH, and
// WEIGHT_HEADER for rows or TILE_BITS, TILE_GROUP and TILE_ROW_SCALE for tiles.
#ifndef TILE_BITS
#include WEIGHT_HEADER
#endif

namespace ingot::cuda {

#ifdef TILE_BITS
inline constexpr TileFormat kTileFormat = {TILE_BITS, TILE_GROUP, TILE_ROW_SCALE != 0};

// Values k .. k + 7 of a row, k a multiple of 8; past the last column they are zero.
__device__ inline void load_weight8(const void* weight, int row, int k, float (&out)[8]) {
  constexpr TileSlices kSlicesOfK{tile_pieces(WIDTH)};
  const u8* base = static_cast<const u8*>(weight);
  const int block = row / kTileRows;
  const int in_block = row % kTileRows;
  const u8* piece =
      base + (static_cast<i64>(block) * kSlicesOfK.pieces + kSlicesOfK.place(k / kTileColumns)) *
                 kTileFormat.piece_bytes();
  float scale = 1;
  if constexpr (TILE_GROUP != 0)
    scale = f16_at(piece + tile_scale_byte(kTileFormat, in_block,
                                           k % kTileColumns / (TILE_GROUP != 0 ? TILE_GROUP : 1)));
  if constexpr (TILE_ROW_SCALE != 0)
    scale = f32_at(base + tile_piece_total(kTileFormat, WEIGHT_ROWS, WIDTH) +
                   static_cast<i64>(row) * 4);
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const TilePlace place = tile_place(TILE_BITS, in_block, k % kTileColumns + i);
    const u8* p = piece + place.byte;
    if constexpr (TILE_BITS == 16) {
      out[i] = to_float(bf16{static_cast<u16>(u16_at(p))});
      out[i + 1] = to_float(bf16{static_cast<u16>(u16_at(p + 2))});
    } else if constexpr (TILE_BITS == 8) {
      out[i] = scale * static_cast<float>(i8_at(p));
      out[i + 1] = scale * static_cast<float>(i8_at(p + 1));
    } else {
      const u32 word = u32_at(p) >> place.shift;
      out[i] = scale * static_cast<float>(static_cast<int>(word & 15) - 8);
      out[i + 1] = scale * static_cast<float>(static_cast<int>(word >> 16 & 15) - 8);
    }
  }
}
#else
__device__ inline void load_weight8(const void* weight, int row, int k, float (&out)[8]) {
  Weight::load8<WIDTH>(static_cast<const u8*>(weight) + row * Weight::row_bytes<WIDTH>(), k, out);
}
#endif

}  // namespace ingot::cuda
