#pragma once

// How a matrix lies in tiles, read by the host compiler and by NVRTC. A row block is 16 rows; its
// pieces of 64 columns are contiguous. A piece holds the A operands of mma.m16n8k16 as registers of
// lanes, four steps of 16 columns, then the scales of its groups. K is cut into eight slices of
// whole pieces, the first ones a piece longer where eight does not divide them. Pieces lie in turn:
// the first of each slice, the second of each slice, ... so that what eight warps need next, a
// slice each, is one run of bytes. Behind the last row block lie the scales of rows, if any.
//
// The sum of a row is that of its slices in order, each a chain of steps from zero: an order that
// depends on the number of columns alone, and that mma.sync and wgmma add in with equal bits.
namespace ingot::cuda {

inline constexpr int kTileRows = 16;
inline constexpr int kTileColumns = 64;
inline constexpr int kSlices = 8;

// Numbers of a format: `bits` each, a scale in f16 for each `group` of columns (0: none), or one in
// f32 for each row.
struct TileFormat {
  int bits;
  int group;
  bool row_scale;
  constexpr int quant_bytes() const { return kTileRows * kTileColumns * bits / 8; }
  constexpr int groups() const { return group == 0 ? 0 : kTileColumns / group; }
  constexpr int piece_bytes() const { return quant_bytes() + 2 * kTileRows * groups(); }
};

// The slices of a K of `pieces` pieces.
struct TileSlices {
  int pieces;
  constexpr int shorter() const { return pieces / kSlices; }      // pieces of a slice, or one more
  constexpr int longer_ones() const { return pieces % kSlices; }  // slices with one more
  constexpr int first_piece(int slice) const {
    return slice * shorter() + (slice < longer_ones() ? slice : longer_ones());
  }
  constexpr int count(int slice) const { return shorter() + (slice < longer_ones()); }
  // Where a piece lies among those of its row block. Of `place` the remainder by eight is the
  // slice.
  constexpr int place(int piece) const {
    const int in_longer = longer_ones() * (shorter() + 1);
    if (piece < in_longer) return piece % (shorter() + 1) * kSlices + piece / (shorter() + 1);
    const int rest = piece - in_longer;
    return rest % shorter() * kSlices + longer_ones() + rest / shorter();
  }
};
constexpr int tile_pieces(long long columns) {
  return static_cast<int>((columns + kTileColumns - 1) / kTileColumns);
}
constexpr long long tile_row_blocks(long long rows) {
  return (rows + kTileRows - 1) / kTileRows;
}
// Bytes before the scales of rows.
constexpr long long tile_piece_total(TileFormat format, long long rows, long long columns) {
  return tile_row_blocks(rows) * tile_pieces(columns) * format.piece_bytes();
}
constexpr long long tile_bytes(TileFormat format, long long rows, long long columns) {
  return tile_piece_total(format, rows, columns) +
         (format.row_scale ? tile_row_blocks(rows) * kTileRows * 4 : 0);
}

// Where columns k and k + 1 (k even) of a piece's row lie. In 16 and 8 bit they are neighbours; in
// 4 bit they are nibbles of one word, the second 16 bits above the first.
struct TilePlace {
  int byte;
  int shift;  // of the first nibble in the word, in 4 bit
};
constexpr TilePlace tile_place(int bits, int row, int k) {
  const int lane = row % 8 * 4 + k % 8 / 2;
  const int reg = row / 8 + k % 16 / 8 * 2;  // which of A's four registers
  if (bits == 16) return {(k / 16 * 32 + lane) * 16 + reg * 4, 0};
  if (bits == 8) return {(k / 32 * 32 + lane) * 16 + k % 32 / 16 * 8 + reg * 2, 0};
  return {lane * 16 + k / 16 * 4, reg * 4};
}
// Where the f16 scale of a group of a piece's row lies: both rows of a lane and all groups at once.
constexpr int tile_scale_byte(TileFormat format, int row, int group) {
  return format.quant_bytes() + ((row % 8 * format.groups() + group) * 2 + row / 8) * 2;
}

}  // namespace ingot::cuda
