#pragma once

// Plain data shared by every instruction tier: how a weight format is stored on the CPU and what
// its numbers mean. No std:: templates here: this header is compiled with tier-specific flags, and
// an inline function emitted there could be picked by the linker for the whole program.
#include <stdint.h>

namespace ingot::cpu {

// Packed layout, one for every tier and every number of tokens. A weight matrix [n, k] is a row of
// panels of 32 output rows; a panel is read strictly forwards:
//   panel = [32 f32 row scales, where rows have one] block block block ...
//   block = [half plane]... [word plane]...          32 rows x block_k values
//   half plane = 32 x 16 bits, one a row (f16 scale, minimum, ...): one cache line
//   word plane = 32 x 32 bits, one a row: two cache lines
// The planes are the 2- and 4-byte pieces of the source blocks (quant/<format>.cpp, GGUF's own
// bytes) in the order of `segments`: packing permutes bytes, so it loses nothing and is inverted
// by the opposite permutation. A word of quants holds 4 (8 bit), 8 (4 bit: 4 k in low nibbles and 4
// in high ones), 2 (16 bit) or 1 (f32) values of one row's k: a row is a 32-bit lane.
// Signed bytes are stored with the top bit flipped (value + 128): `xor_mask`.
inline constexpr int kPanelRows = 32;

enum class PackedKind : uint8_t {
  kF32,
  kF16,
  kBf16,
  kFp8,
  kInt8,
  kInt4,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIq4Nl,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Xs,
  kCount
};

// A piece of every source block: `bytes` at `offset`; 2 = one half plane, else bytes / 4 word
// planes. Half planes come first in the packed block, then words, each in the order listed.
struct PackedSegment {
  int16_t offset;
  int16_t bytes;
  uint32_t xor_mask;
};

struct PackedFormat {
  const char* name;  // of the WeightFormat
  PackedKind kind;
  int block_k;           // values of a block, source and packed
  int source_bytes;      // of a source block
  int row_header_bytes;  // before a source row's first block: 4 (f32 scale) or 0
  PackedSegment segments[5];
  int segment_count;

  // Arithmetic of `Compute::kNative`. Float kinds: f32 FMA. Integer kinds: value = scale * (q -
  // zero_point) [+ min], q unsigned and at most max_q, one scale for every `group` values (0: for
  // the row).
  bool is_float;
  int group;
  int zero_point;
  int max_q;
  bool has_min;
};

// Bytes of a packed block.
constexpr int packed_block_bytes(const PackedFormat& f) {
  int bytes = 0;
  for (int i = 0; i < f.segment_count; ++i)
    bytes += f.segments[i].bytes == 2 ? 64 : f.segments[i].bytes * kPanelRows;
  return bytes;
}

inline constexpr uint32_t kFlip = 0x80808080u;  // s8 to u8 = s8 + 128

// The format `kind` at index static_cast<int>(kind). Segment order is reading order of the kernels;
// offsets are those of quant/<format>.cpp.
inline constexpr PackedFormat kPackedFormats[static_cast<int>(PackedKind::kCount)] = {
    {"f32", PackedKind::kF32, 32, 128, 0, {{0, 128, 0}}, 1, true, 0, 0, 0, false},
    {"f16", PackedKind::kF16, 32, 64, 0, {{0, 64, 0}}, 1, true, 0, 0, 0, false},
    {"bf16", PackedKind::kBf16, 32, 64, 0, {{0, 64, 0}}, 1, true, 0, 0, 0, false},
    {"fp8", PackedKind::kFp8, 32, 32, 4, {{0, 32, 0}}, 1, true, 0, 0, 0, false},
    {"int8", PackedKind::kInt8, 32, 32, 4, {{0, 32, kFlip}}, 1, false, 0, 128, 255, false},
    {"int4", PackedKind::kInt4, 64, 34, 0, {{0, 2, 0}, {2, 32, 0}}, 2, false, 32, 8, 15, false},
    {"q8_0",
     PackedKind::kQ8_0,
     32,
     34,
     0,
     {{0, 2, 0}, {2, 32, kFlip}},
     2,
     false,
     32,
     128,
     255,
     false},
    {"q4_0", PackedKind::kQ4_0, 32, 18, 0, {{0, 2, 0}, {2, 16, 0}}, 2, false, 32, 8, 15, false},
    {"q4_1",
     PackedKind::kQ4_1,
     32,
     20,
     0,
     {{0, 2, 0}, {2, 2, 0}, {4, 16, 0}},
     3,
     false,
     32,
     0,
     15,
     true},
    {"q5_0",
     PackedKind::kQ5_0,
     32,
     22,
     0,
     {{0, 2, 0}, {2, 4, 0}, {6, 16, 0}},
     3,
     false,
     32,
     16,
     31,
     false},
    {"q5_1",
     PackedKind::kQ5_1,
     32,
     24,
     0,
     {{0, 2, 0}, {2, 2, 0}, {4, 4, 0}, {8, 16, 0}},
     4,
     false,
     32,
     0,
     31,
     true},
    {"iq4_nl",
     PackedKind::kIq4Nl,
     32,
     18,
     0,
     {{0, 2, 0}, {2, 16, 0}},
     2,
     false,
     32,
     128,
     255,
     false},
    // q2_k: d, dmin, 16 bytes of scales and minimums, 64 of quants.
    {"q2_k",
     PackedKind::kQ2K,
     256,
     84,
     0,
     {{80, 2, 0}, {82, 2, 0}, {0, 16, 0}, {16, 64, 0}},
     4,
     false,
     16,
     0,
     3,
     true},
    // q3_k: d, 12 bytes of scales, 32 of third bits, 64 of quants.
    {"q3_k",
     PackedKind::kQ3K,
     256,
     110,
     0,
     {{108, 2, 0}, {96, 12, 0}, {0, 32, 0}, {32, 64, 0}},
     4,
     false,
     16,
     4,
     7,
     false},
    // q4_k: d, dmin, 12 bytes of scales and minimums, 128 of nibbles.
    {"q4_k",
     PackedKind::kQ4K,
     256,
     144,
     0,
     {{0, 2, 0}, {2, 2, 0}, {4, 12, 0}, {16, 128, 0}},
     4,
     false,
     32,
     0,
     15,
     true},
    // q5_k: as q4_k with 32 bytes of fifth bits before the nibbles.
    {"q5_k",
     PackedKind::kQ5K,
     256,
     176,
     0,
     {{0, 2, 0}, {2, 2, 0}, {4, 12, 0}, {16, 32, 0}, {48, 128, 0}},
     5,
     false,
     32,
     0,
     31,
     true},
    // q6_k: d, 16 signed scales, 128 bytes of low nibbles, 64 of high bit pairs.
    {"q6_k",
     PackedKind::kQ6K,
     256,
     210,
     0,
     {{208, 2, 0}, {192, 16, 0}, {0, 128, 0}, {128, 64, 0}},
     4,
     false,
     16,
     32,
     63,
     false},
    // iq4_xs: d, 16 high scale bits, 4 bytes of low scale nibbles, 128 of nibbles.
    {"iq4_xs",
     PackedKind::kIq4Xs,
     256,
     136,
     0,
     {{0, 2, 0}, {2, 2, 0}, {4, 4, 0}, {8, 128, 0}},
     4,
     false,
     32,
     128,
     255,
     false},
};

}  // namespace ingot::cpu
