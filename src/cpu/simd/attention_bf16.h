#pragma once

// Attention over a bf16 or e4m3 KV cache with BF16 instructions: queries and probabilities are
// rounded to bf16 and meet K and V as the cache keeps them (e4m3 is exact in bf16), two products
// at a time, summed in f32. Scales of an e4m3 cache meet logits and probabilities.
//
// One order for direct and tiled: a logit sums pairs of dimensions, a value pairs of tokens at even
// positions, each one vdpbf16ps a pair. A token that a row does not see has probability 0 and
// adds an exact zero; where no row sees it, zeros are read instead of its V in bf16, which may be
// anything, while e4m3 gives a number whatever the byte.
// vdpbf16ps takes denormals, its sums included, as zeros, so how many such zeros are added does not
// matter to a sum that was rescaled into the denormals either.
//
// Over the vectors of vec_avx512.h, included before.
#include "cpu/simd/attention_rows.h"

#include <immintrin.h>

namespace ingot::cpu {
namespace {

// Powers of two that a row's logits may exceed the scale of what it has gathered, before that is
// rescaled: most rows are only when they start.
constexpr float kSlack = 8;

alignas(64) const uint16_t kNoValues[kMaxHeadDim] = {};

// A Vec may hold 16 pairs of bf16: `words`. Assembler because g++ 12 moves accumulators of the
// intrinsic between registers and memory.
inline void add_dots(Vec& sums, Vec words, Vec pair) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(words), "v"(pair));
}

inline Vec words_of(Vec low, Vec high) {
  return (Vec)_mm512_cvtne2ps_pbh(high, low);
}

// Values d to d + 31 of a row, zeros from `dim` on.
inline __m512i load_halves(const uint16_t* row, int64_t d, int64_t dim) {
  const int64_t left = dim - d;
  if (left >= 32) return _mm512_loadu_si512(row + d);
  if (left <= 0) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi16((1u << left) - 1, row + d);
}

// Two rows of V side by side: pairs of columns d to d + 15 and d + 16 to d + 31.
inline void interleave(__m512i even, __m512i odd, Vec& low, Vec& high) {
  constexpr int64_t kQuad = 0x0021000100200000, kStep = 0x0002000200020002;
  const __m512i first =
      _mm512_setr_epi64(kQuad, kQuad + kStep, kQuad + 2 * kStep, kQuad + 3 * kStep,
                        kQuad + 4 * kStep, kQuad + 5 * kStep, kQuad + 6 * kStep, kQuad + 7 * kStep);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  low = (Vec)_mm512_permutex2var_epi16(even, first, odd);
  high = (Vec)_mm512_permutex2var_epi16(even, second, odd);
}

// 16 pairs of a query from value d on, scaled and rounded.
inline Vec query_words(const float* q, int d, int dim, float scale) {
  const int left = dim - d;
  const uint32_t keep = left >= 32 ? 0xffffffffu : (1u << left) - 1;
  const Vec low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(keep), q + d);
  const Vec high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(keep >> 16), q + d + 16);
  return words_of(mul(low, splat(scale)), mul(high, splat(scale)));
}

// Rows of q as pairs, in the first words of rows of `padded`. Rows beyond `real` are zeros.
inline void round_to_bf16(const Rows& rows, int real) {
  const AttentionItem& item = rows.item;
  for (int r = 0; r < rows.count; ++r) {
    const float* q = item.q + r / item.group * item.q_stride + r % item.group * item.dim;
    for (int d = 0; d < item.dim; d += 32)
      store(rows.q + r * rows.padded + d / 2,
            r < real ? query_words(q, d, item.dim, item.q_scale) : splat(0.0f));
  }
}

// 2^x for x that become bf16: relative error below 8e-5, a 25th of the rounding.
inline Vec rough_exp2(Vec x) {
  const Vec r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x)
  Vec p = splat(0.0780245215f);
  p = mul_add(p, r, splat(0.226067156f));
  p = mul_add(p, r, splat(0.695833564f));
  p = mul_add(p, r, splat(0.999925196f));
  return _mm512_scalef_ps(p, x);
}

// The largest logits of a block [64], lane by lane, after softcap and mask, which are put in place.
inline Vec cap_and_tops(const AttentionItem& item, Seen seen, float* p) {
  Vec x[4] = {load(p), load(p + 16), load(p + 32), load(p + 48)};
  const bool whole = seen.begin <= 0 && seen.end >= kKeyBlock;
  if (!whole || item.softcap != 0) {
    const uint64_t keep = ~uint64_t{0} << seen.begin & ~uint64_t{0} >> (kKeyBlock - seen.end);
    for (int i = 0; i < 4; ++i) {
      if (item.softcap != 0) x[i] = mul(tanh_of(x[i]), splat(item.softcap));
      x[i] = _mm512_mask_blend_ps(static_cast<__mmask16>(keep >> i * 16), splat(kMasked), x[i]);
      store(p + i * 16, x[i]);
    }
  }
  return max(max(x[0], x[1]), max(x[2], x[3]));
}

inline bool outgrows(Vec tops, const RowState& s) {
  return _mm512_cmp_ps_mask(tops, splat(s.top + kSlack), _CMP_GT_OQ) != 0;
}

// p [64]: logits in, 2^(p - top) as bf16 in its first 32 words out, times the scales of V where
// there are any. Without them the sum is that of the rounded values: a result is then a mean of V
// whose weights are a little off but add up to 1. Against sums before rounding that is up to half
// of the error where few keys count or V has a mean, and an instruction less.
inline void exponentials_to_bf16(float* p, RowState& s) {
  const Vec top = splat(s.top);
  const Vec ones = _mm512_castsi512_ps(_mm512_set1_epi32(0x3f803f80));
  const Vec low = words_of(rough_exp2(sub(load(p), top)), rough_exp2(sub(load(p + 16), top)));
  const Vec high = words_of(rough_exp2(sub(load(p + 32), top)), rough_exp2(sub(load(p + 48), top)));
  Vec sums = load(s.sums);
  add_dots(sums, low, ones);
  add_dots(sums, high, ones);
  store(s.sums, sums);
  store(p, low);
  store(p + 16, high);
}

inline void weights_to_bf16(float* p, const float* scales, RowState& s) {
  const Vec top = splat(s.top);
  Vec sums = load(s.sums);
  Vec weights[4];
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    const Vec e = rough_exp2(sub(load(p + i * 16), top));
    sums = add(sums, e);
    weights[i] = weights_of(e, load(scales + i * 16));
  }
  store(s.sums, sums);
  store(p, words_of(weights[0], weights[1]));
  store(p + 16, words_of(weights[2], weights[3]));
}

// The softmax of N rows from `row` on, rows.p [N][64] as above; the rest as `soften`. Step by step
// for all rows: one row alone would wait for its own results.
template <int N, bool kScaled>
inline void soften_to_bf16(const Rows& rows, int row, const Seen (&seen)[N], BlockScales scales) {
  RowState* states = rows.states + row;
  Vec tops[N];
  bool grow = false;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    float* at = rows.p + i * kKeyBlock;
    if constexpr (kScaled)
      for (int k = 0; k < kKeyBlock; k += 16) store(at + k, mul(load(at + k), load(scales.k + k)));
    tops[i] = seen[i].any() ? cap_and_tops(rows.item, seen[i], at) : splat(kMasked);
    grow |= outgrows(tops[i], states[i]);
  }
  for (int i = 0; grow && i < N; ++i) {
    RowState& s = states[i];
    if (!outgrows(tops[i], s)) continue;
    const float top = _mm512_reduce_max_ps(tops[i]);
    const float by = exp2_of(s.top - top);
    s.top = top;
    scale_row(s.sums, 16, by);
    scale_row(rows.o + (row + i) * rows.padded, static_cast<int>(rows.padded), by);
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    float* at = rows.p + i * kKeyBlock;
    if (seen[i].any()) {
      if constexpr (kScaled)
        weights_to_bf16(at, scales.v, states[i]);
      else
        exponentials_to_bf16(at, states[i]);
    } else {
      store(at, splat(0.0f));
      store(at + 16, splat(0.0f));
    }
  }
}

// The arithmetic of attention_pairs_*.h over a bf16 cache.
struct Bf16Pairs {
  static constexpr int kPairBytes = 4;
  static constexpr bool kScaled = false;
  static void add(Vec& sums, Vec words, Vec pair) { add_dots(sums, words, pair); }
  static Vec keys(const uint8_t* k) { return load(reinterpret_cast<const float*>(k)); }
  template <int NV>
  static void values(const ValuesAt& at, Vec (&w)[NV]) {
    const auto* row = reinterpret_cast<const uint16_t*>(at.v) + at.token * at.dim;
    const uint16_t* even = at.token >= at.seen.begin ? row : kNoValues;
    const uint16_t* odd = at.token + 1 < at.seen.end ? row + at.dim : kNoValues;
#pragma GCC unroll 8
    for (int v = 0; v < NV; v += 2) {
      const int64_t d = at.d + v * kLanes;
      Vec high;
      interleave(load_halves(even, d, at.dim), load_halves(odd, d, at.dim), w[v],
                 v + 1 < NV ? w[v + 1] : high);
    }
  }
  static Vec start(const float* o) { return load(o); }
  static void finish(Vec sums, const RowState&, float* o) { store(o, sums); }
  static void round_queries(const Rows& rows, int real) { round_to_bf16(rows, real); }
  template <int N>
  static void soften(const Rows& rows, int row, const Seen (&seen)[N], BlockScales scales) {
    soften_to_bf16<N, false>(rows, row, seen, scales);
  }
};

// The same over an e4m3 cache.
struct E4m3Pairs : Bf16Pairs {
  static constexpr int kPairBytes = 2;
  static constexpr bool kScaled = true;
  static Vec keys(const uint8_t* k) { return e4m3_words(k); }
  template <int NV>
  static void values(const ValuesAt& at, Vec (&w)[NV]) {
    const uint8_t* row = at.v + at.token * at.dim + 2 * at.d;
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) w[v] = e4m3_words(row + v * kLanes * 2);
  }
  template <int N>
  static void soften(const Rows& rows, int row, const Seen (&seen)[N], BlockScales scales) {
    soften_to_bf16<N, true>(rows, row, seen, scales);
  }
};

}  // namespace
}  // namespace ingot::cpu
