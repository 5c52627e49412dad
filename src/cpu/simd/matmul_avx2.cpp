// The AVX2 tier (AVX2, FMA, F16C): its plan, activations and epilogues.
#include "cpu/simd/matmul_avx2.h"

namespace ingot::cpu {

namespace {

constexpr int kTileTokens =
    6;  // 12 accumulators, 2 weights, an activation and a product: 16 registers
constexpr float kSmallest = 1e-30f;  // below it 127 / max would not be finite

MatmulPlan plan(const PackedFormat& f, Compute compute, int64_t) {
  const Form form = form_of(f, compute);
  // A slice fills half of L1 and shares it with the tile's activations and sums.
  int slice_k = form == Form::kBytes ? 512 : 256;
  if (form == Form::kFloats && f.block_k < 128) slice_k = 128;
  const int value_bytes = form == Form::kBytes ? 1 : form == Form::kPairs ? 2 : 4;
  return {.tile_tokens = kTileTokens,
          .slice_k = slice_k,
          .value_bytes = value_bytes,
          .slice_bytes = slice_k * kPanelRows * value_bytes,
          .slice_floats = scale_floats(f, slice_k)};
}

inline __m256 abs_ps(__m256 v) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}
// As integers the order of magnitudes is the same, and NaN is the largest.
inline __m256i max_magnitude(__m256i top, __m256 v) {
  return _mm256_max_epi32(top, _mm256_castps_si256(abs_ps(v)));
}
inline float reduce_max(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtss_f32(_mm_castsi128_ps(m));
}
inline int reduce_add(__m128i m) {
  m = _mm_add_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
  m = _mm_add_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(m);
}

struct Step {
  float scale;
  float inverse;
};
inline Step step_of(float top) {
  if (top <= kSmallest) return {0, 0};
  return {top / 127.0f, 127.0f / top};
}

struct Group {  // 32 values
  __m256 v[4];
};
inline Group load_group(const float* x, int64_t left) {
  Group g;
  alignas(32) float padded[32];
  if (left < 32) {
    memset(padded, 0, sizeof padded);
    if (left > 0) memcpy(padded, x, static_cast<size_t>(left) * sizeof(float));
    x = padded;
  }
  for (int i = 0; i < 4; ++i) g.v[i] = _mm256_loadu_ps(x + i * 8);
  return g;
}

inline float largest(const Group& g) {
  __m256i top = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) top = max_magnitude(top, g.v[i]);
  return reduce_max(top);
}

float largest_of_row(const float* x, int64_t k) {
  __m256i top = _mm256_setzero_si256();
  for (int64_t j = 0; j < k; j += 32) {
    const Group g = load_group(x + j, k - j);
    for (int i = 0; i < 4; ++i) top = max_magnitude(top, g.v[i]);
  }
  return reduce_max(top);
}

struct Rounded {
  __m256i bytes;      // 32 s8, ascending k
  int64_t low, high;  // sums of k 0-15 and 16-31; 64 bits, for what NaN rounds to
};
inline Rounded round_group(const Group& g, float inverse) {
  const __m256 inv = _mm256_set1_ps(inverse);
  __m256i n[4];
  for (int i = 0; i < 4; ++i) n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(g.v[i], inv));
  const auto total = [](__m256i a, __m256i b) -> int64_t {
    const __m256i s = _mm256_add_epi32(a, b);
    return reduce_add(_mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
  };
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return {_mm256_permutevar8x32_epi32(packed, order), total(n[0], n[1]), total(n[2], n[3])};
}

// 8 steps of 4 k, `tokens` words apart; pairs take even and odd k apart as 16 bits.
inline void put_bytes(uint8_t* q, int tokens, __m256i bytes) {
  alignas(32) uint32_t words[8];
  store256(words, bytes);
  for (int s = 0; s < 8; ++s) memcpy(q + s * 4 * tokens, words + s, 4);
}
inline void put_pairs(uint8_t* q, int tokens, __m256i bytes) {
  alignas(32) uint32_t even[8];
  alignas(32) uint32_t odd[8];
  store256(even, _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
  store256(odd, _mm256_srai_epi16(bytes, 8));
  for (int s = 0; s < 8; ++s) {
    memcpy(q + s * 8 * tokens, even + s, 4);
    memcpy(q + (s * 8 + 4) * tokens, odd + s, 4);
  }
}

// One token of an integer format.
void quantise_token(const QuantiseCall& call, int token) {
  const PackedFormat& f = *call.format;
  const ActTile& out = call.out;
  const int tokens = out.tokens;
  const bool pairs = form_of(f, call.compute) == Form::kPairs;
  const float* x = call.x + token * call.x_stride;
  auto* q = static_cast<uint8_t*>(out.q) + token * 4;
  Step step{0, 0};
  int64_t total = 0;
  if (f.group == 0) {
    step = step_of(largest_of_row(x, call.k));
    out.scale[token] = step.scale;
  }
  int64_t at = token;  // of the group's init and sum
  for (int64_t k = 0; k < call.padded_k; k += 32) {
    const Group g = load_group(x + k, call.k - k);
    if (f.group != 0) {
      step = step_of(largest(g));
      out.scale[k / 32 * tokens + token] = step.scale;
    }
    const Rounded r = round_group(g, step.inverse);
    if (pairs)
      put_pairs(q, tokens, r.bytes);
    else
      put_bytes(q, tokens, r.bytes);
    q += 32 * tokens * (pairs ? 2 : 1);
    const int64_t sums[2] = {f.group == 16 ? r.low : r.low + r.high, r.high};
    total += r.low + r.high;
    for (int i = 0; f.group != 0 && i < 32 / f.group; ++i, at += tokens) {
      out.init[at] = static_cast<int32_t>(-f.zero_point * sums[i]);
      if (f.has_min) out.sum[at] = step.scale * static_cast<float>(sums[i]);
    }
  }
  if (f.group == 0) out.init[token] = static_cast<int32_t>(-f.zero_point * total);
}

// [k][tokens]
void quantise_floats(const QuantiseCall& call) {
  const int tokens = call.out.tokens;
  auto* q = static_cast<float*>(call.out.q);
  for (int i = 0; i < tokens; ++i) {
    const float* x = call.x + i * call.x_stride;
    for (int64_t k = 0; k < call.k; ++k) q[k * tokens + i] = x[k];
    for (int64_t k = call.k; k < call.padded_k; ++k) q[k * tokens + i] = 0;
  }
}

void quantise(const QuantiseCall& call) {
  if (form_of(*call.format, call.compute) == Form::kFloats) return quantise_floats(call);
  for (int i = 0; i < call.out.tokens; ++i) quantise_token(call, i);
}

// By the steps in matmul.h.
inline __m256 silu(__m256 x) {
  __m256 t = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  // Operand order: a NaN in t comes through.
  t = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), t));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(t, _mm256_set1_ps(kLog2E)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2High), t);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2Low), r);
  __m256 p = _mm256_set1_ps(kExp7);
  constexpr float kRest[] = {kExp6, kExp5, kExp4, kExp3, kExp2};
  for (const float coefficient : kRest) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(coefficient));
  const __m256 one = _mm256_set1_ps(1.0f);
  p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), one);
  const __m256i exponent =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_div_ps(x, _mm256_add_ps(one, _mm256_mul_ps(p, _mm256_castsi256_ps(exponent))));
}

inline __m256 with_bias(const float* c, const float* bias, int j) {
  const __m256 v = _mm256_loadu_ps(c + j);
  return bias != nullptr ? _mm256_add_ps(v, _mm256_loadu_ps(bias + j)) : v;
}

inline void finish_row(const FinishCall& call, const float* c, const float* bias,
                       const float* residual, float* y) {
  const bool swiglu = call.epilogue == Epilogue::kSwiglu;
  for (int j = 0; j < (swiglu ? kGateUpRows : kPanelRows); j += 8) {
    __m256 v = with_bias(c, bias, j);
    if (swiglu) v = _mm256_mul_ps(silu(v), with_bias(c, bias, j + kGateUpRows));
    if (residual != nullptr) v = _mm256_add_ps(v, _mm256_loadu_ps(residual + j));
    _mm256_storeu_ps(y + j, v);
  }
}

void finish(const FinishCall& call) {
  const bool whole = call.columns == kPanelRows;
  const auto bytes = static_cast<size_t>(call.columns) * sizeof(float);
  float bias[kPanelRows] = {};
  if (!whole && call.bias != nullptr) memcpy(bias, call.bias, bytes);
  for (int i = 0; i < call.tokens; ++i) {
    const float* c = call.c + i * kPanelRows;
    const float* residual =
        call.residual != nullptr ? call.residual + i * call.residual_stride : nullptr;
    float* y = call.y + i * call.y_stride;
    if (whole) {
      finish_row(call, c, call.bias, residual, y);
      continue;
    }
    // The last panel: nothing beyond the last column is read or written.
    float before[kPanelRows] = {};
    float after[kPanelRows];
    if (residual != nullptr) memcpy(before, residual, bytes);
    finish_row(call, c, call.bias != nullptr ? bias : nullptr,
               residual != nullptr ? before : nullptr, after);
    memcpy(y, after, bytes);
  }
}

}  // namespace

const MatmulKernels kMatmulAvx2 = {
    .plan = plan, .quantise = quantise, .expand = expand_avx2, .tile = tile_avx2, .finish = finish};

}  // namespace ingot::cpu
