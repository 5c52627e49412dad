#include "cuda/weight_tiles.h"

#include "base/check.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ingot::cuda {
namespace {

// One row's part of a piece, whatever its format: quants as they are stored, widened.
struct PieceRow {
  std::array<std::uint16_t, kTileColumns> quants{};
  std::array<std::uint16_t, kTileColumns / 32> scales{};
};

// How canonical rows spell a piece. A block has a scale in f16 and then its quants, in 4 bit those
// of the first half in the low nibbles; without blocks a row is `header` bytes and its quants.
struct RowForm {
  std::string_view name;
  TileFormat tiles;
  std::size_t header;
};
constexpr RowForm kForms[] = {
    {"bf16", {.bits = 16, .group = 0, .row_scale = false}, 0},
    {"int4", {.bits = 4, .group = 64, .row_scale = false}, 0},
    {"int8", {.bits = 8, .group = 0, .row_scale = true}, sizeof(float)},
    {"q4_0", {.bits = 4, .group = 32, .row_scale = false}, 0},
    {"q8_0", {.bits = 8, .group = 32, .row_scale = false}, 0},
};

const RowForm* find_form(std::string_view name) {
  const auto* form = std::ranges::find(kForms, name, &RowForm::name);
  return form == std::end(kForms) ? nullptr : form;
}

template <typename Byte>
constexpr bool kReads = std::is_const_v<Byte>;

// Between memory and a number of fewer bytes, in the direction that Byte's constness says.
template <typename Byte>
void move(Byte* memory, std::uint16_t& number, std::size_t bytes) {
  if constexpr (kReads<Byte>) {
    number = 0;
    std::memcpy(&number, memory, bytes);
  } else {
    std::memcpy(memory, &number, bytes);
  }
}

// A nibble of a byte; the other is kept.
template <typename Byte>
void move_nibble(Byte* memory, std::uint16_t& number, int shift) {
  const auto byte = std::to_integer<unsigned>(*memory);
  if constexpr (kReads<Byte>)
    number = static_cast<std::uint16_t>(byte >> shift & 15);
  else
    *memory = static_cast<std::byte>((byte & ~(15u << shift)) | unsigned{number} << shift);
}

// Columns first .. first + 63 of a canonical row, as far as there are so many.
template <typename Byte>
void move_row(const RowForm& form, Byte* row, std::int64_t first, std::int64_t columns,
              PieceRow& piece) {
  const TileFormat& tiles = form.tiles;
  const std::int64_t count = std::min<std::int64_t>(kTileColumns, columns - first);
  if (tiles.group == 0) {
    const auto bytes = static_cast<std::size_t>(tiles.bits / 8);
    Byte* at = row + form.header + static_cast<std::size_t>(first) * bytes;
    for (std::int64_t k = 0; k < count; ++k)
      move(at + static_cast<std::size_t>(k) * bytes, piece.quants[static_cast<std::size_t>(k)],
           bytes);
    return;
  }
  const std::size_t group = static_cast<std::size_t>(tiles.group);
  const std::size_t block = 2 + group * static_cast<std::size_t>(tiles.bits) / 8;
  for (std::size_t g = 0; g * group < static_cast<std::size_t>(count); ++g) {
    Byte* at = row + (static_cast<std::size_t>(first) / group + g) * block;
    move(at, piece.scales[g], 2);
    for (std::size_t k = 0; k < group; ++k) {
      std::uint16_t& quant = piece.quants[g * group + k];
      if (tiles.bits == 8)
        move(at + 2 + k, quant, 1);
      else
        move_nibble(at + 2 + k % (group / 2), quant, k < group / 2 ? 0 : 4);
    }
  }
}

template <typename Byte>
void move_piece(const TileFormat& tiles, Byte* piece, int row, PieceRow& values) {
  for (int k = 0; k < kTileColumns; k += 2) {
    const TilePlace place = tile_place(tiles.bits, row, k);
    std::uint16_t* pair = &values.quants[static_cast<std::size_t>(k)];
    Byte* at = piece + place.byte;
    if (tiles.bits == 4) {
      move_nibble(at + place.shift / 8, pair[0], place.shift % 8);
      move_nibble(at + 2 + place.shift / 8, pair[1], place.shift % 8);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(tiles.bits / 8);
    move(at, pair[0], bytes);
    move(at + bytes, pair[1], bytes);
  }
  for (int g = 0; g < tiles.groups(); ++g)
    move(piece + tile_scale_byte(tiles, row, g), values.scales[static_cast<std::size_t>(g)], 2);
}

// Calls visit(canonical row, first column, piece, row in it) for every row of every piece.
template <typename RowByte, typename TileByte, typename Visit>
void for_each_part(const RowForm& form, std::size_t row_bytes, std::int64_t rows,
                   std::int64_t columns, RowByte* canonical, TileByte* packed, Visit visit) {
  const TileSlices slices{tile_pieces(columns)};
  const auto piece_bytes = static_cast<std::size_t>(form.tiles.piece_bytes());
  for (std::int64_t n = 0; n < rows; ++n) {
    RowByte* row = canonical + static_cast<std::size_t>(n) * row_bytes;
    TileByte* block =
        packed + static_cast<std::size_t>(n / kTileRows * slices.pieces) * piece_bytes;
    for (int p = 0; p < slices.pieces; ++p)
      visit(row, std::int64_t{p} * kTileColumns,
            block + static_cast<std::size_t>(slices.place(p)) * piece_bytes,
            static_cast<int>(n % kTileRows));
  }
}

}  // namespace

const TileFormat* find_tile_format(std::string_view name) {
  const RowForm* form = find_form(name);
  return form ? &form->tiles : nullptr;
}

void pack_tiles(const WeightFormat& format, std::int64_t rows, std::int64_t columns,
                std::span<const std::byte> from, std::span<std::byte> packed) {
  const RowForm* form = find_form(format.name);
  check(form != nullptr, "a weight format without tiles");
  std::ranges::fill(packed, std::byte{0});
  const std::size_t row_bytes = format.row_bytes(columns);
  for_each_part(*form, row_bytes, rows, columns, from.data(), packed.data(),
                [&](const std::byte* row, std::int64_t first, std::byte* piece, int in_piece) {
                  PieceRow values;
                  move_row(*form, row, first, columns, values);
                  move_piece(form->tiles, piece, in_piece, values);
                });
  if (!form->tiles.row_scale) return;
  std::byte* scales = packed.data() + tile_piece_total(form->tiles, rows, columns);
  for (std::int64_t n = 0; n < rows; ++n)
    std::memcpy(scales + n * 4, from.data() + static_cast<std::size_t>(n) * row_bytes, 4);
}

void unpack_tiles(const WeightFormat& format, std::int64_t rows, std::int64_t columns,
                  std::span<const std::byte> packed, std::span<std::byte> to) {
  const RowForm* form = find_form(format.name);
  check(form != nullptr, "a weight format without tiles");
  const std::size_t row_bytes = format.row_bytes(columns);
  for_each_part(*form, row_bytes, rows, columns, to.data(), packed.data(),
                [&](std::byte* row, std::int64_t first, const std::byte* piece, int in_piece) {
                  PieceRow values;
                  move_piece(form->tiles, piece, in_piece, values);
                  move_row(*form, row, first, columns, values);
                });
  if (!form->tiles.row_scale) return;
  const std::byte* scales = packed.data() + tile_piece_total(form->tiles, rows, columns);
  for (std::int64_t n = 0; n < rows; ++n)
    std::memcpy(to.data() + static_cast<std::size_t>(n) * row_bytes, scales + n * 4, 4);
}

}  // namespace ingot::cuda
