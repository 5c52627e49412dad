#pragma once

// Pieces shared by the AVX2 files. Only they include this; every function is static, so that no
// AVX2 code can be chosen by the linker for the rest of the program.
#include "cpu/simd/matmul.h"

#include <immintrin.h>
#include <string.h>

namespace ingot::cpu {

void expand_avx2(const ExpandCall& call);
void tile_avx2(const TileCall& call);

namespace {

// How a slice lies in memory; activations match.
enum class Form : uint8_t {
  kBytes,   // u8 [k / 4][32][4]                              x: s8  [k / 4][tokens][4]
  kPairs,   // i16 [k / 4][even, odd k][32][2], of u8 values  x: i16 [k / 4][even, odd k][tokens][2]
  kFloats,  // f32 [k][32]                                    x: f32 [k][tokens]
};

// u8 times s8 is exact in the 16-bit sums of vpmaddubsw only up to 7 bits; 8-bit weights go by
// vpmaddwd on 16-bit operands: the same number of multiplications as tricks with signs, fewer
// steps.
constexpr Form form_of(const PackedFormat& f, Compute compute) {
  if (f.is_float || compute == Compute::kF32) return Form::kFloats;
  return f.max_q > 127 ? Form::kPairs : Form::kBytes;
}

constexpr const PackedFormat& format_of(PackedKind kind) {
  return kPackedFormats[static_cast<int>(kind)];
}

// Floats of scales and minimums for k values.
constexpr int scale_floats(const PackedFormat& f, int k) {
  return f.group == 0 ? 0 : k / f.group * kPanelRows * (f.has_min ? 2 : 1);
}

// Steps of 4 k whose products (two in each 16-bit lane) add up without overflow; a power of two.
constexpr int exact_steps(const PackedFormat& f) {
  const int exact = 32767 / (2 * 127 * f.max_q);
  int steps = 1;
  while (steps * 2 <= exact && steps * 2 <= f.group / 4) steps *= 2;
  return steps;
}

inline __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline void store256(void* p, __m256i v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
inline __m256i splat32(const void* p) {
  int v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

}  // namespace

}  // namespace ingot::cpu
