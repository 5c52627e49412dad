#pragma once

// What the AVX-512 files share. The tiers add to each other: AVX-512 (F, BW, VL, DQ) has f32 tiles,
// bf16 widened in registers and byte products by vpmaddubsw; VNNI replaces the integer tiles; BF16
// replaces bf16 weights' arithmetic. Loaders, layouts and forms are those of matmul_avx2.h wherever
// nothing is said.
#include "cpu/simd/matmul.h"

namespace ingot::cpu {

inline constexpr int kTokens512 = 14;  // 28 accumulators, 2 weights, 2 activations: 32 registers
// Integer sums that meet their scales after each group: more loads and stores than that come at
// once at a group's end and stall Zen 5 (8 tokens 73 % of its peak, 14 tokens 66 %); no loss on
// Sapphire Rapids.
inline constexpr int kTokensGroups = 8;
inline constexpr int kTokensProducts = 12;  // two products and ones besides
inline constexpr int kFewTiles = 2;         // up to so many, slices are short and alternate in L1

// Weights as f32 or bf16: kFloats with 14 tokens. bf16 and f32 are multiplied where they lie.
MatmulPlan plan_floats_avx512(const PackedFormat& format, int64_t tokens);
void tile_floats_avx512(const TileCall& call);

// f32 [k][tokens], or s8 [k / 4][tokens][4] for integers (every format, 8-bit ones too).
void quantise_floats_avx512(const QuantiseCall& call);
void quantise_bytes_avx512(const QuantiseCall& call);

void finish_avx512(const FinishCall& call);

namespace {

inline constexpr int64_t kStretch = 512;

// Calls take(token, k) for every 32 k of every token: a stretch of each token before the next, long
// enough to read rows in their order, short enough for the words of all tokens, which lie side by
// side, to stay in L1.
template <typename Take>
inline void walk_stretches(const QuantiseCall& call, Take take) {
  const int tokens = call.out.tokens;
  for (int64_t begin = 0; begin < call.padded_k; begin += kStretch) {
    const int64_t end = begin + kStretch < call.padded_k ? begin + kStretch : call.padded_k;
    for (int i = 0; i < tokens; ++i) {
      const float* next = i + 1 < tokens ? call.x + (i + 1) * call.x_stride : call.x + kStretch;
      for (int64_t k = begin; k < end; k += 32) {
        __builtin_prefetch(next + k);
        __builtin_prefetch(next + k + 16);
        take(i, k);
      }
    }
  }
}

}  // namespace

}  // namespace ingot::cpu
