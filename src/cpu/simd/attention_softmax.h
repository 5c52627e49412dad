#pragma once

// The online softmax of a row over blocks of keys. Over the vectors of the vec_*.h included before;
// see attention.h.
#include "cpu/simd/attention.h"
#include "cpu/simd/vec_math.h"

namespace ingot::cpu {
namespace {

constexpr float kMasked = -1e30f;  // finite: minus itself it is no NaN
constexpr int kVecsOfBlock = kKeyBlock / kLanes;
constexpr int kVecsOfGroup = kKeyGroup / kLanes;
constexpr int kTileVecs = kAccumulators / kTileRows;

// The online softmax of one row.
struct RowState {
  float top;
  float q_unit;  // of attention_int8.h: what a step of the row's query is worth,
  float p_unit;  // and one of its probabilities of the block at hand
  float pad[13];
  float sums[16];  // one a lane of a key group
};

inline void start_row(RowState& s) {
  s.top = kMasked;
  for (int i = 0; i < 16; i += kLanes) store(s.sums + i, splat(0.0f));
}

inline void scale_row(float* x, int n, float by) {
  const Vec factor = splat(by);
  for (int i = 0; i < n; i += kLanes) store(x + i, mul(load(x + i), factor));
}

// Keys of a block that a row sees: [begin, end) within the block.
struct Seen {
  int begin;
  int end;
  bool any() const { return begin < end; }
};

// Scales of the keys of a block, in 8 bit.
struct BlockScales {
  const float* k;
  const float* v;
};

// Softcap, and kMasked for keys of these groups that the row does not see.
inline void cap_and_mask(const AttentionItem& item, Seen seen, Seen groups, float* p) {
  const Vec first = splat(static_cast<float>(seen.begin));
  const Vec last = splat(static_cast<float>(seen.end));
  for (int k = groups.begin; k < groups.end; k += kLanes) {
    Vec x = load(p + k);
    if (item.softcap != 0) x = mul(tanh_of(x), splat(item.softcap));
    const Vec key = add(lane_numbers(), splat(static_cast<float>(k)));
    x = where_less(key, first, splat(kMasked), where_less(key, last, x, splat(kMasked)));
    store(p + k, x);
  }
}

inline Seen groups_of(Seen seen) {
  return {seen.begin / kKeyGroup * kKeyGroup, (seen.end + kKeyGroup - 1) / kKeyGroup * kKeyGroup};
}

inline float largest(Seen groups, const float* p) {
  Vec top = load(p + groups.begin);
  for (int k = groups.begin + kLanes; k < groups.end; k += kLanes) top = max(top, load(p + k));
  return largest_lane(top);
}

// p = 2^(p - top), added up.
inline void exponentials(Seen groups, float top, float* p, float* sums_at) {
  const Vec base = splat(top);
  Vec sums[kVecsOfGroup];
  for (int v = 0; v < kVecsOfGroup; ++v) sums[v] = load(sums_at + v * kLanes);
  for (int k = groups.begin; k < groups.end; k += kKeyGroup) {
    for (int v = 0; v < kVecsOfGroup; ++v) {
      float* at = p + k + v * kLanes;
      const Vec e = exp2_of(sub(load(at), base));
      sums[v] = add(sums[v], e);
      store(at, e);
    }
  }
  for (int v = 0; v < kVecsOfGroup; ++v) store(sums_at + v * kLanes, sums[v]);
}

// Exponentials times scales; a key that is not seen counts 0, whatever its scale.
inline Vec weights_of(Vec p, Vec scales) {
  return where_less(splat(0.0f), p, mul(p, scales), splat(0.0f));
}

// p: logits in, their exponentials out, relative to the row's running maximum; what the row
// gathered before is rescaled when the maximum grows.
[[gnu::always_inline]] inline void soften_seen(const AttentionItem& item, Seen seen, float* p,
                                               RowState& s, float* o) {
  const Seen groups = groups_of(seen);
  const bool whole = seen.begin == groups.begin && seen.end == groups.end;
  if (!whole || item.softcap != 0) cap_and_mask(item, seen, groups, p);
  const float block_top = largest(groups, p);
  if (block_top > s.top) {
    const float by = exp2_of(s.top - block_top);
    s.top = block_top;
    scale_row(s.sums, 16, by);
    scale_row(o, static_cast<int>(padded_dim(item.dim)), by);
  }
  exponentials(groups, s.top, p, s.sums);
}

// The same over a cache with scales: those of K meet the logits, those of V the exponentials, which
// are then the weights of codes.
[[gnu::always_inline]] inline void soften_scaled(const AttentionItem& item, Seen seen,
                                                 BlockScales scales, float* p, RowState& s,
                                                 float* o) {
  const Seen groups = groups_of(seen);
  for (int k = groups.begin; k < groups.end; k += kLanes)
    store(p + k, mul(load(p + k), load(scales.k + k)));
  soften_seen(item, seen, p, s, o);
  for (int k = groups.begin; k < groups.end; k += kLanes)
    store(p + k, weights_of(load(p + k), load(scales.v + k)));
}

// f(seen), compiled once more for blocks seen whole, whose loops have a constant length.
template <class F>
[[gnu::always_inline]] inline void with_seen(Seen seen, F f) {
  if (seen.begin == 0 && seen.end == kKeyBlock)
    f(Seen{0, kKeyBlock});
  else
    f(seen);
}

// p [64] of a block, see soften_seen and soften_scaled. Key groups that the row sees nothing of are
// left alone: they would add zeros.
template <bool kScaled>
inline void soften(const AttentionItem& item, Seen seen, BlockScales scales, float* p, RowState& s,
                   float* o) {
  with_seen(seen, [&](Seen keys) __attribute__((always_inline)) {
    if constexpr (kScaled)
      soften_scaled(item, keys, scales, p, s, o);
    else
      soften_seen(item, keys, p, s, o);
  });
}

// What a row has gathered over some ranges: its maximum, its sum and its output, unnormalised.
struct Gathered {
  float top;
  float sum;
  float* o;
};

// `next` joins `all`, in ascending order of ranges. A sum of 0 means nothing seen yet.
inline void join(Gathered& all, const Gathered& next, int padded) {
  if (next.sum == 0) return;
  if (all.sum == 0) {
    all.top = next.top;
    all.sum = next.sum;
    for (int d = 0; d < padded; d += kLanes) store(all.o + d, load(next.o + d));
  } else if (next.top > all.top) {
    const float by = exp2_of(all.top - next.top);
    all.top = next.top;
    all.sum = mul_add(all.sum, by, next.sum);
    const Vec factor = splat(by);
    for (int d = 0; d < padded; d += kLanes)
      store(all.o + d, mul_add(load(all.o + d), factor, load(next.o + d)));
  } else {
    const float by = exp2_of(next.top - all.top);
    all.sum = mul_add(next.sum, by, all.sum);
    const Vec factor = splat(by);
    for (int d = 0; d < padded; d += kLanes)
      store(all.o + d, mul_add(load(next.o + d), factor, load(all.o + d)));
  }
}

inline void write_result(const Gathered& all, int dim, float* out) {
  const float by = 1.0f / all.sum;
  const Vec factor = splat(by);
  int d = 0;
  // + 0: a sum that underflowed to -0 gives the same zero however many masked keys followed it.
  for (; d + kLanes <= dim; d += kLanes)
    store(out + d, add(mul(load(all.o + d), factor), splat(0.0f)));
  for (; d < dim; ++d) out[d] = all.o[d] * by + 0.0f;
}

}  // namespace
}  // namespace ingot::cpu
