#pragma once

// The matrix kernels of one instruction tier, as a table of plain functions. cpu/linear.cpp drives
// them; nothing else calls them.
#include "cpu/simd/packed_format.h"

#include <stddef.h>
#include <stdint.h>

namespace ingot::cpu {

enum class Compute : uint8_t {
  kNative,  // activations in 8 bit beside integer weights; f32 beside float weights
  kF32      // weights widened to f32, f32 FMA: the oracle
};
enum class Epilogue : uint8_t { kNone, kSwiglu };

// SwiGLU weights: each panel of 32 rows holds kGateUpRows gate rows, then the kGateUpRows up rows
// that belong to them. Output j of panel p, j < 16: silu(row 32 p + j) * (row 32 p + 16 + j).
inline constexpr int kGateUpRows = 16;

// What the driver must know of a tier's way with one format.
struct MatmulPlan {
  int tile_tokens;   // most tokens of one tile
  int slice_k;       // k expanded at a time, a multiple of block_k
  int value_bytes;   // of one quantised activation
  int slice_bytes;   // of an expanded slice's values, 32 rows x slice_k, a multiple of 64
  int slice_floats;  // of its scales and minimums, a multiple of 16
  bool in_place;     // tiles read the values where they lie; `expand` makes only scales, if any
};

// The activations of one tile of tokens, quantised by this tier for one format; only the tier reads
// them. k is padded with zeros to a multiple of 32 (256 for super-blocks).
//   q     value_bytes * k * tokens, the tier's own order within each 32 k, ascending in k
//   init  [k / group][tokens]: -zero_point * sum of q over the group; int8: [tokens], over all k
//   scale [k / 32][tokens]: what one step of q is worth; int8: [tokens]
//   sum   [k / group][tokens]: scale * sum of q, what minimums multiply (formats with has_min)
// q rounds x * (127 / max|x|) to nearest even, scale is max|x| / 127, both in f32, the maximum over
// 32 values (int8: over the token); a group without a value
// above 1e-30 has scale 0 and q 0. A NaN or an infinity makes the scale NaN or infinite.
struct ActTile {
  void* q;
  int32_t* init;
  float* scale;
  float* sum;
  int tokens;
};

struct QuantiseCall {
  const PackedFormat* format;
  Compute compute;
  const float* x;  // [tokens, k], rows x_stride apart
  int64_t x_stride;
  int64_t k;
  int64_t padded_k;
  ActTile out;
};

// Packed blocks to what `tile` reads: values and f32 scales (and minimums) of 32 rows x k.
struct ExpandCall {
  const PackedFormat* format;
  Compute compute;
  bool in_place;  // of the plan: scales alone
  const uint8_t* blocks;
  int64_t k;
  const float* row_scale;  // [32] or null
  uint8_t* q;
  float* scale;
};

// Order of every sum, the same in all tiers, tiles and for any number of tokens:
//   floats: c = fma(x, w, c) over ascending k
//   groups: c = fma(f32(int32 dot + init) * weight scale, activation scale, c), then, with
//   minimums,
//           c = fma(minimum, sum, c), over ascending groups
//   int8:   (f32(int32 sum over all k) * row scale) * activation scale
struct TileCall {
  const PackedFormat* format;
  Compute compute;
  ActTile act;
  int64_t k_begin;   // of the slice
  int64_t k;         // of the slice
  const uint8_t* q;  // expanded, or the packed blocks
  bool in_place;     // of the plan
  const float* scale;
  float* c;                // [tokens][32], 64-byte aligned; partial sums, of the tier's choice
  bool first;              // the slice starts the sums
  bool last;               // the slice ends them: c holds f32 results afterwards
  const float* row_scale;  // [32] or null
  const uint8_t*
      prefetch;  // bytes to bring near meanwhile, prefetch_bytes of them; may be past the end
  int64_t prefetch_bytes;
};

// c to y, for one panel: y[i][j] = epilogue(c[i][j] + bias[j]) + residual[i][j].
struct FinishCall {
  const float* c;  // [tokens][32]
  int tokens;
  int columns;  // of c that are real rows of the weight, 1..32
  Epilogue epilogue;
  const float* bias;      // of the panel's first row, or null
  const float* residual;  // of the panel's first output and the tile's first token, or null
  int64_t residual_stride;
  float* y;
  int64_t y_stride;
};

struct MatmulKernels {
  MatmulPlan (*plan)(const PackedFormat& format, Compute compute, int64_t tokens);
  void (*quantise)(const QuantiseCall& call);
  void (*expand)(const ExpandCall& call);
  void (*tile)(const TileCall& call);
  void (*finish)(const FinishCall& call);
};

// silu(x) = x / (1 + exp(-x)), by these steps in every tier, so that tiers agree bit for bit:
// t = min(max(-x, -87), 88); n = round_to_even(t * kLog2E); r = fma(n, -kLn2High, t);
// r = fma(n, -kLn2Low, r); p = kExp7; p = fma(p, r, kExp6) and so on to kExp2;
// p = fma(p, r * r, r) + 1; e = p * 2^n; silu = x / (1 + e). Minimax polynomial of Cephes' expf.
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440e-4f;
inline constexpr float kExp7 = 1.9875691500e-4f;
inline constexpr float kExp6 = 1.3981999507e-3f;
inline constexpr float kExp5 = 8.3334519073e-3f;
inline constexpr float kExp4 = 4.1665795894e-2f;
inline constexpr float kExp3 = 1.6666665459e-1f;
inline constexpr float kExp2 = 5.0000001201e-1f;

extern const MatmulKernels kMatmulGeneric;
#if defined(__x86_64__)
extern const MatmulKernels kMatmulAvx2;
extern const MatmulKernels kMatmulAvx512;
extern const MatmulKernels kMatmulAvx512Vnni;
extern const MatmulKernels kMatmulAvx512Bf16;

// iq4_xs as bytes for the VNNI tiers; the AVX2 tier multiplies its 8-bit values as pairs.
void expand_iq4_xs_bytes_avx2(const ExpandCall& call);
// The scales and minimums of q4_k, q5_k and q6_k alone.
void expand_super_scales_avx2(const ExpandCall& call);
#endif

}  // namespace ingot::cpu
