// The AVX-512 tier without VNNI: F, BW, VL, DQ (Skylake-X and its like).
#include "cpu/simd/matmul_avx512.h"

#include "cpu/simd/tile_avx512.h"

namespace ingot::cpu {

namespace {

constexpr float kSmallest = 1e-30f;  // below it 127 / max would not be finite

bool floats(const PackedFormat& f, Compute compute) {
  return f.is_float || compute == Compute::kF32;
}
bool pairs(const PackedFormat& f) {
  return f.max_q > 127;
}

// Integers: slices and activations as the AVX2 tier has them.
MatmulPlan plan(const PackedFormat& f, Compute compute, int64_t tokens) {
  if (floats(f, compute)) return plan_floats_avx512(f, tokens);
  const int slice_k = tokens <= kFewTiles * kTokensProducts ? 512 : 1024;
  const int value_bytes = pairs(f) ? 2 : 1;
  const int groups = f.group == 0 ? 0 : slice_k / f.group * (f.has_min ? 2 : 1);
  return {.tile_tokens = kTokensProducts,
          .slice_k = slice_k,
          .value_bytes = value_bytes,
          .slice_bytes = slice_k * kPanelRows * value_bytes,
          .slice_floats = groups * kPanelRows,
          .in_place = false};
}

void quantise(const QuantiseCall& call) {
  if (floats(*call.format, call.compute)) return quantise_floats_avx512(call);
  if (pairs(*call.format)) return kMatmulAvx2.quantise(call);
  quantise_bytes_avx512(call);
}

void expand(const ExpandCall& call) {
  kMatmulAvx2.expand(call);
}

// Products of 4 and fewer bits add up in 16 bits over a whole group.
Tile integer_tile(PackedKind kind, int tokens) {
  constexpr UpTo12 kUpTo;
  switch (kind) {
    case PackedKind::kInt8:
      return sums_tile<kPairs, 8>(tokens, kUpTo);
    case PackedKind::kQ8_0:
    case PackedKind::kIq4Nl:
    case PackedKind::kIq4Xs:
      return group_tile<kPairs, PackedKind::kQ8_0>(tokens, kUpTo);
    case PackedKind::kInt4:
    case PackedKind::kQ4_0:
      return group_tile<kBytes16, PackedKind::kQ4_0>(tokens, kUpTo);
    case PackedKind::kQ4_1:
    case PackedKind::kQ4K:
      return group_tile<kBytes16, PackedKind::kQ4_1>(tokens, kUpTo);
    case PackedKind::kQ5_0:
      return group_tile<kBytes32, PackedKind::kQ5_0>(tokens, kUpTo);
    case PackedKind::kQ5_1:
    case PackedKind::kQ5K:
      return group_tile<kBytes32, PackedKind::kQ5_1>(tokens, kUpTo);
    case PackedKind::kQ2K:
      return group_tile<kBytes16, PackedKind::kQ2K>(tokens, kUpTo);
    case PackedKind::kQ3K:
      return group_tile<kBytes16, PackedKind::kQ3K>(tokens, kUpTo);
    case PackedKind::kQ6K:
      return group_tile<kBytes32, PackedKind::kQ6K>(tokens, kUpTo);
    default:
      return nullptr;
  }
}

void tile(const TileCall& call) {
  const PackedFormat& f = *call.format;
  if (floats(f, call.compute)) return tile_floats_avx512(call);
  const Tile run = integer_tile(f.kind, call.act.tokens);
  const int value_bytes = pairs(f) ? 2 : 1;
  if (f.group == 0) {
    const int64_t bytes = 32 * kPanelRows * value_bytes;
    return run(call, stream_of(call, call.q, bytes, call.k / 16));
  }
  const int64_t bytes = f.group * kPanelRows * value_bytes;
  run(call, stream_of(call, call.q, bytes, call.k / f.group));
}

// By the steps in matmul.h.
inline __m512 silu(__m512 x) {
  __m512 t = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
  // Operand order: a NaN in t comes through.
  t = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-87.0f), t));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(t, _mm512_set1_ps(kLog2E)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2High), t);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2Low), r);
  __m512 p = _mm512_set1_ps(kExp7);
  constexpr float kRest[] = {kExp6, kExp5, kExp4, kExp3, kExp2};
  for (const float coefficient : kRest) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
  const __m512 one = _mm512_set1_ps(1.0f);
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), one);
  const __m512i exponent =
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
  return _mm512_div_ps(x, _mm512_add_ps(one, _mm512_mul_ps(p, _mm512_castsi512_ps(exponent))));
}

// Outputs j .. j + 15 of one token; lanes outside `keep` are neither read nor written.
inline void finish_lanes(const FinishCall& call, const float* c, int j, __mmask16 keep,
                         const float* residual, float* y) {
  const auto with_bias = [&](int column) {
    const __m512 v = _mm512_load_ps(c + column);
    if (call.bias == nullptr) return v;
    return _mm512_add_ps(v, _mm512_maskz_loadu_ps(keep, call.bias + column));
  };
  __m512 v = with_bias(j);
  if (call.epilogue == Epilogue::kSwiglu) v = _mm512_mul_ps(silu(v), with_bias(j + kGateUpRows));
  if (residual != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(keep, residual + j));
  _mm512_mask_storeu_ps(y + j, keep, v);
}

inline __mmask16 first_lanes(int64_t n) {
  return n >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << (n > 0 ? n : 0)) - 1);
}

struct Step127 {
  float scale;
  float inverse;
};
inline Step127 step_of(float top) {
  if (top <= kSmallest) return {0, 0};
  return {top / 127.0f, 127.0f / top};
}

// As integers the order of magnitudes is the same, and NaN is the largest.
inline __m512i magnitude(__m512 v) {
  return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
}
inline float largest(__m512i top) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(top))));
}

float largest_of_row(const float* x, int64_t k) {
  __m512i top = _mm512_setzero_si512();
  for (int64_t j = 0; j < k; j += 16)
    top = _mm512_max_epi32(top, magnitude(_mm512_maskz_loadu_ps(first_lanes(k - j), x + j)));
  return largest(top);
}

// 32 values of one token to s8, by `step`; their sums over the first and the last 16.
struct Sums16 {
  int64_t first;  // 64 bits, for what NaN rounds to
  int64_t last;
};
inline Sums16 quantise_32(__m512 v0, __m512 v1, float inverse, uint8_t* q, int tokens) {
  const __m512 by = _mm512_set1_ps(inverse);
  const __m512i n0 = _mm512_cvtps_epi32(_mm512_mul_ps(v0, by));
  const __m512i n1 = _mm512_cvtps_epi32(_mm512_mul_ps(v1, by));
  alignas(32) int32_t words[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), _mm512_cvtsepi32_epi8(n0));
  _mm_store_si128(reinterpret_cast<__m128i*>(words + 4), _mm512_cvtsepi32_epi8(n1));
  for (int j = 0; j < 8; ++j) memcpy(q + 4 * tokens * j, words + j, 4);
  return {_mm512_reduce_add_epi32(n0), _mm512_reduce_add_epi32(n1)};
}

}  // namespace

void quantise_bytes_avx512(const QuantiseCall& call) {
  const PackedFormat& f = *call.format;
  const ActTile& out = call.out;
  const int tokens = out.tokens;
  Step127 steps[kTokens512];
  int64_t totals[kTokens512] = {};
  if (f.group == 0)
    for (int i = 0; i < tokens; ++i) {
      steps[i] = step_of(largest_of_row(call.x + i * call.x_stride, call.k));
      out.scale[i] = steps[i].scale;
    }
  walk_stretches(call, [&](int i, int64_t k) {
    const float* x = call.x + i * call.x_stride + k;
    auto* q = static_cast<uint8_t*>(out.q) + k * tokens + 4 * i;
    const __m512 v0 = _mm512_maskz_loadu_ps(first_lanes(call.k - k), x);
    const __m512 v1 = _mm512_maskz_loadu_ps(first_lanes(call.k - k - 16), x + 16);
    if (f.group == 0) {
      const Sums16 sums = quantise_32(v0, v1, steps[i].inverse, q, tokens);
      totals[i] += static_cast<int32_t>(sums.first + sums.last);
      return;
    }
    const Step127 step = step_of(largest(_mm512_max_epi32(magnitude(v0), magnitude(v1))));
    out.scale[k / 32 * tokens + i] = step.scale;
    const Sums16 sums = quantise_32(v0, v1, step.inverse, q, tokens);
    const auto put = [&](int64_t group, int64_t sum) {
      out.init[group * tokens + i] = static_cast<int32_t>(-f.zero_point * sum);
      if (f.has_min) out.sum[group * tokens + i] = step.scale * static_cast<float>(sum);
    };
    if (f.group == 16) {
      put(k / 16, sums.first);
      put(k / 16 + 1, sums.last);
    } else {
      put(k / 32, static_cast<int32_t>(sums.first + sums.last));
    }
  });
  if (f.group == 0)
    for (int i = 0; i < tokens; ++i) out.init[i] = static_cast<int32_t>(-f.zero_point * totals[i]);
}

void quantise_floats_avx512(const QuantiseCall& call) {
  const int tokens = call.out.tokens;
  auto* q = static_cast<float*>(call.out.q);
  for (int i = 0; i < tokens; ++i) {
    const float* x = call.x + i * call.x_stride;
    for (int64_t k = 0; k < call.k; ++k) q[k * tokens + i] = x[k];
    for (int64_t k = call.k; k < call.padded_k; ++k) q[k * tokens + i] = 0;
  }
}

void finish_avx512(const FinishCall& call) {
  const bool swiglu = call.epilogue == Epilogue::kSwiglu;
  for (int i = 0; i < call.tokens; ++i) {
    const float* c = call.c + i * kPanelRows;
    const float* residual =
        call.residual != nullptr ? call.residual + i * call.residual_stride : nullptr;
    float* y = call.y + i * call.y_stride;
    finish_lanes(call, c, 0, first_lanes(call.columns), residual, y);
    if (!swiglu) finish_lanes(call, c, 16, first_lanes(call.columns - 16), residual, y);
  }
}

MatmulPlan plan_floats_avx512(const PackedFormat& f, int64_t tokens) {
  const bool few = tokens <= kFewTiles * kTokens512;
  // f16 takes several instructions to widen: for many tokens it is done once.
  const bool in_place = f.kind == PackedKind::kF32 || f.kind == PackedKind::kBf16 ||
                        (f.kind == PackedKind::kF16 && few);
  // In place: as far as the prefetch runs ahead. Else at least a super-block, in L2.
  const int slice_k = in_place ? (few ? 256 : 1024) : 256;
  return {.tile_tokens = kTokens512,
          .slice_k = slice_k,
          .value_bytes = 4,
          .slice_bytes = in_place ? 0 : slice_k * kPanelRows * 4,
          .slice_floats = in_place || f.group == 0 ? 0 : slice_k / f.group * kPanelRows * 2,
          .in_place = in_place};
}

void tile_floats_avx512(const TileCall& call) {
  constexpr UpTo14 kUpTo;
  const int tokens = call.act.tokens;
  const bool bf16 = call.format->kind == PackedKind::kBf16;
  const bool f16 = call.format->kind == PackedKind::kF16 && call.in_place;
  const Stream from = stream_of(call, call.q, kPanelRows * (bf16 || f16 ? 64 : 128), call.k / 8);
  if (bf16) return sums_tile<kWidenBf16, 8>(tokens, kUpTo)(call, from);
  if (f16) return sums_tile<kWidenF16, 8>(tokens, kUpTo)(call, from);
  if (call.format->kind == PackedKind::kF32)
    return sums_tile<kFloat, 16>(tokens, kUpTo)(call, from);
  if (call.format->kind == PackedKind::kF16) return sums_tile<kFloat, 8>(tokens, kUpTo)(call, from);
  sums_tile<kFloat, 4>(tokens, kUpTo)(call, from);
}

const MatmulKernels kMatmulAvx512 = {
    .plan = plan, .quantise = quantise, .expand = expand, .tile = tile, .finish = finish_avx512};

}  // namespace ingot::cpu
