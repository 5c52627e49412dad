#pragma once

// Attention over an int8 KV cache by products of 16-bit integers, summed in 32 bit without any
// error and so in any order: the row of a query is kept in steps of its largest value / 32767, the
// probabilities of a block of keys, times the scales of V, in steps of their largest / 32767. Both
// are 100 times finer than the cache, and an instruction makes twice as many products as in f32.
//
// 32767 * 127 * kMaxHeadDim and 32767 * 127 * kKeyBlock fit 31 bits. What is no number, in a query
// or by a scale, makes its step no number and so all that it meets.
//
// Over the vectors of the vec_*.h included before.
#include "cpu/simd/attention_rows.h"

namespace ingot::cpu {
namespace {

constexpr float kInt16Top = 32767;
static_assert(int64_t{32767} * 127 * kMaxHeadDim <= INT32_MAX);

// Floats in steps of a 32767th of their largest.
struct Steps {
  float unit;  // no number where one of them is none
  float by;    // 1 / unit; 0 where all are too small for it, or one is no number
};

// `tops`: max_magnitude of all.
inline Steps steps_of(Vec tops) {
  const float top = largest_magnitude(tops);
  return {top * (1 / kInt16Top), top > 1e-30f ? kInt16Top / top : 0.0f};
}

// Rows of q as pairs of int16, in the first words of rows of `padded`. Rows beyond `real` are
// zeros.
inline void round_to_int16(const Rows& rows, int real) {
  const AttentionItem& item = rows.item;
  alignas(64) float scaled[kMaxHeadDim + 16];
  for (int r = 0; r < rows.count; ++r) {
    for (int64_t d = 0; d < rows.padded; d += kLanes) store(scaled + d, splat(0.0f));
    if (r < real)
      copy_scaled(item.q + r / item.group * item.q_stride + r % item.group * item.dim, item.dim,
                  item.q_scale, scaled);
    Vec tops = splat(0.0f);
    const int64_t dim = r < real ? rows.padded : 0;
    for (int64_t d = 0; d < dim; d += kLanes) tops = max_magnitude(tops, load(scaled + d));
    const Steps steps = steps_of(tops);
    rows.states[r].q_unit = steps.unit;
    float* to = rows.q + r * rows.padded;
    for (int64_t d = 0; d < rows.padded; d += kLanes)
      store_int16(to + d / 2, mul(d < dim ? load(scaled + d) : splat(0.0f), splat(steps.by)));
  }
}

// p [64]: products of q and K in, whole numbers; the weights of the codes of V out, as pairs of
// int16 in its first 32 words, zeros where the row sees nothing, in steps of s.p_unit.
[[gnu::always_inline]] inline void soften_to_int16(const AttentionItem& item, Seen seen,
                                                   BlockScales scales, float* p, RowState& s,
                                                   float* o) {
  const Seen groups = groups_of(seen);
  const Vec unit = splat(s.q_unit);
  for (int k = groups.begin; k < groups.end; k += kLanes)
    store(p + k, mul(int32_to_floats(load(p + k)), unit));
  soften_scaled(item, seen, scales, p, s, o);
  Vec tops = splat(0.0f);
  for (int k = groups.begin; k < groups.end; k += kLanes) tops = max_magnitude(tops, load(p + k));
  const Steps steps = steps_of(tops);
  s.p_unit = steps.unit;
  // A word lands where nothing is read any more.
  const Vec by = splat(steps.by);
  for (int k = groups.begin; k < groups.end; k += kLanes)
    store_int16(p + k / 2, mul(load(p + k), by));
  for (int k = 0; k < groups.begin / 2; k += kLanes / 2) store_int16(p + k, splat(0.0f));
  for (int k = groups.end / 2; k < kKeyBlock / 2; k += kLanes / 2) store_int16(p + k, splat(0.0f));
}

// The arithmetic of attention_pairs_*.h; Products::add as add_products of the vectors.
template <class Products>
struct Int8Pairs {
  static constexpr int kPairBytes = 2;
  static constexpr bool kScaled = true;
  static void add(Vec& sums, Vec words, Vec pair) { Products::add(sums, words, pair); }
  static Vec keys(const uint8_t* k) { return int8_words(k); }
  template <int NV>
  static void values(const ValuesAt& at, Vec (&w)[NV]) {
    const uint8_t* row = at.v + at.token * at.dim + 2 * at.d;
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) w[v] = int8_words(row + v * kLanes * 2);
  }
  static Vec start(const float*) { return splat(0.0f); }
  static void finish(Vec sums, const RowState& s, float* o) {
    store(o, mul_add(int32_to_floats(sums), splat(s.p_unit), load(o)));
  }
  static void round_queries(const Rows& rows, int real) { round_to_int16(rows, real); }
  template <int N>
  static void soften(const Rows& rows, int row, const Seen (&seen)[N], BlockScales scales) {
    for (int i = 0; i < N; ++i) {
      float* p = rows.p + i * kKeyBlock;
      RowState& s = rows.states[row + i];
      if (seen[i].any()) {
        float* o = rows.o + (row + i) * rows.padded;
        with_seen(seen[i], [&](Seen keys) __attribute__((always_inline)) {
          soften_to_int16(rows.item, keys, scales, p, s, o);
        });
        continue;
      }
      s.p_unit = 0;
      for (int k = 0; k < kKeyBlock / 2; k += kLanes) store(p + k, splat(0.0f));
    }
  }
};

struct TierProducts {
  static void add(Vec& sums, Vec words, Vec pair) { add_products(sums, words, pair); }
};

}  // namespace
}  // namespace ingot::cpu
