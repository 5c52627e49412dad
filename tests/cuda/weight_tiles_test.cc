// Matrices in tiles: what packing loses (nothing), and that each lane finds its operands.
#include "cuda/weight_tiles.h"

#include "base/half.h"
#include "quant/weight_format.h"

#include <gtest/gtest.h>

#include "tests/ops/op_run.h"
#include <cstring>
#include <random>
#include <vector>

namespace ingot::cuda {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::string_view kFormats[] = {"bf16", "int4", "int8", "q4_0", "q8_0"};

std::uint32_t word_at(const std::byte* p) {
  std::uint32_t word = 0;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Column 2 q + odd (+ 8) of row g (+ 8): what register `reg` of lane 4 g + q holds for a step, read
// as device/tile_fragments.cuh reads it, without scale.
float operand(const TileFormat& tiles, const std::byte* piece, int step, int lane, int reg,
              int odd) {
  if (tiles.bits == 16) {
    const std::uint32_t word = word_at(piece + (step * 32 + lane) * 16 + reg * 4);
    return bf16_to_f32(static_cast<std::uint16_t>(word >> (16 * odd)));
  }
  if (tiles.bits == 8) {
    const std::byte* words = piece + (step / 2 * 32 + lane) * 16 + step % 2 * 8;
    const std::uint32_t byte = word_at(words + reg / 2 * 4) >> (reg % 2 * 16 + odd * 8) & 0xff;
    const std::uint32_t above = 0x4300 | byte;  // the byte below 0x43, as a bf16
    return bf16_to_f32(static_cast<std::uint16_t>(above & 0xff7f)) -
           bf16_to_f32(static_cast<std::uint16_t>(above & 0xff80));
  }
  const std::uint32_t word = word_at(piece + lane * 16 + step * 4) >> (4 * reg);
  return bf16_to_f32(static_cast<std::uint16_t>((word >> (16 * odd) & 0x000f) | 0x4300)) - 136;
}

float scale_of(const TileFormat& tiles, const Bytes& packed, std::int64_t rows,
               std::int64_t columns, const std::byte* piece, std::int64_t row, int k) {
  if (tiles.row_scale) {
    float scale = 0;
    std::memcpy(&scale, packed.data() + tile_piece_total(tiles, rows, columns) + row * 4, 4);
    return scale;
  }
  if (tiles.group == 0) return 1;
  std::uint16_t scale = 0;
  std::memcpy(&scale, piece + tile_scale_byte(tiles, static_cast<int>(row % 16), k / tiles.group),
              2);
  return f16_to_f32(scale);
}

TEST(WeightTiles, LanesFindTheirOperands) {
  constexpr std::int64_t kRows = 21;
  std::mt19937 random(3);
  for (const std::string_view name : kFormats)
    for (const std::int64_t columns : {64, 192, 576, 1216}) {
      const WeightFormat& format = weight_format(name);
      const TileFormat& tiles = *find_tile_format(name);
      const Bytes rows = random_rows(format, kRows, columns, random);
      Bytes packed(static_cast<std::size_t>(tile_bytes(tiles, kRows, columns)));
      pack_tiles(format, kRows, columns, rows, packed);
      const TileSlices slices{tile_pieces(columns)};
      int wrong = 0;
      std::vector<float> wanted(static_cast<std::size_t>(columns));
      for (std::int64_t row = 0; row < kRows; ++row) {
        format.dequantize_row(
            rows.data() + static_cast<std::size_t>(row) * format.row_bytes(columns), columns,
            wanted.data());
        for (int k = 0; k < columns; ++k) {
          const std::byte* piece =
              packed.data() + (row / kTileRows * slices.pieces + slices.place(k / kTileColumns)) *
                                  tiles.piece_bytes();
          const int in = k % kTileColumns;
          const int lane = static_cast<int>(row % 8) * 4 + in % 8 / 2;
          const int reg = static_cast<int>(row % 16) / 8 + in % 16 / 8 * 2;
          const float got = operand(tiles, piece, in / 16, lane, reg, in % 2) *
                            scale_of(tiles, packed, kRows, columns, piece, row, in);
          wrong += got != wanted[static_cast<std::size_t>(k)];
        }
      }
      EXPECT_EQ(wrong, 0) << name << " of " << columns << " columns";
    }
}

TEST(WeightTiles, UnpackingGivesEveryByteBack) {
  std::mt19937 random(5);
  for (const std::string_view name : kFormats)
    for (const std::int64_t rows : {1, 16, 37})
      for (const std::int64_t columns : {1, 33, 64, 96, 512, 1000}) {
        const WeightFormat& format = weight_format(name);
        if (columns % format.block != 0) continue;
        Bytes from(weight_bytes(format, rows, columns));
        for (std::byte& b : from) b = static_cast<std::byte>(random());
        Bytes packed(static_cast<std::size_t>(tile_bytes(*find_tile_format(name), rows, columns)),
                     std::byte{0xee});
        Bytes back(from.size());
        pack_tiles(format, rows, columns, from, packed);
        unpack_tiles(format, rows, columns, packed, back);
        EXPECT_EQ(back, from) << name << " [" << rows << ", " << columns << "]";
      }
}

// Contiguous slices of whole pieces, each place taken once, what is next of all slices together.
TEST(WeightTiles, SlicesCoverK) {
  for (int pieces = 1; pieces <= 40; ++pieces) {
    const TileSlices slices{pieces};
    std::vector<int> piece_at(static_cast<std::size_t>(pieces), -1);
    for (int piece = 0; piece < pieces; ++piece) {
      ASSERT_LT(slices.place(piece), pieces);
      piece_at[static_cast<std::size_t>(slices.place(piece))] = piece;
    }
    for (int place = 0; place < pieces; ++place)
      EXPECT_EQ(piece_at[static_cast<std::size_t>(place)],
                slices.first_piece(place % kSlices) + place / kSlices);
  }
}

}  // namespace
}  // namespace ingot::cuda
