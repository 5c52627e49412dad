#pragma once

#include "cuda/device/tile_layout.cuh"
#include "quant/weight_format.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ingot::cuda {

// Matrices that linears read on tensor cores (device/tile_layout.cuh): canonical rows permuted, and
// zeros where the last tiles reach past the matrix. The other layout is rows as they are.
inline constexpr std::string_view kTilesLayout = "cuda_tiles";

// Null for a format that stays in rows.
const TileFormat* find_tile_format(std::string_view name);

// Both check nothing: `packed` has tile_bytes(), `rows` weight_bytes().
void pack_tiles(const WeightFormat& format, std::int64_t rows, std::int64_t columns,
                std::span<const std::byte> from, std::span<std::byte> packed);
void unpack_tiles(const WeightFormat& format, std::int64_t rows, std::int64_t columns,
                  std::span<const std::byte> packed, std::span<std::byte> to);

}  // namespace ingot::cuda
