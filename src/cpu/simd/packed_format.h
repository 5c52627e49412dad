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

// The format `kind`; index with static_cast<int>(kind).
extern const PackedFormat kPackedFormats[static_cast<int>(PackedKind::kCount)];

}  // namespace ingot::cpu
