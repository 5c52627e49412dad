#pragma once

// Decode by products of pairs of 16-bit words, in the arithmetic A (attention_bf16.h,
// attention_int8.h): one token's rows of one kv head, K and V straight from the pages.
#include "cpu/simd/attention_rows.h"

namespace ingot::cpu {
namespace {

// Vectors of columns that R rows keep beside each other.
constexpr int pair_value_vecs(int rows) {
  const int fit = kAccumulators * 5 / 6 / rows;
  return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

// p[R][64] = q[R] K^T. V is prefetched on the way, in the order that pair_values reads it.
template <class A, int R>
inline void pair_logits(const Rows& rows, const BlockAt& at, Seen seen) {
  constexpr int kVecs = direct_vecs(R);
  constexpr int kStep = kVecs * kLanes;
  const int64_t pairs = (rows.item.dim + 1) / 2;
  for (int t = seen.begin / kStep * kStep; t < seen.end; t += kStep) {
    Vec acc[R][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc[r][v] = splat(0.0f);
    const uint8_t* k = at.k + (t / kKeyGroup * kKeyGroup * pairs + t % kKeyGroup) * A::kPairBytes;
    const uint8_t* ahead = at.v + t * pairs * A::kPairBytes;
    const float* q = rows.q;
    for (int64_t j = 0; j < pairs; ++j, ++q) {
      Vec w[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const int key = v * kLanes;
        w[v] = A::keys(k + (key / kKeyGroup * kKeyGroup * pairs + key % kKeyGroup) * A::kPairBytes);
      }
      for (int line = 0; line < kStep * A::kPairBytes; line += 64) __builtin_prefetch(ahead + line);
      k += kKeyGroup * A::kPairBytes;
      ahead += kStep * A::kPairBytes;
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec x = splat(q[r * rows.padded]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) A::add(acc[r][v], w[v], x);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(rows.p + r * kKeyBlock + t + v * kLanes, acc[r][v]);
  }
}

// o[R] += p[R] V for NV vectors of columns from d on. K of the next block is prefetched on the way.
template <class A, int R, int NV>
inline void pair_values(const Rows& rows, const BlockAt& at, Seen seen, int64_t d,
                        const uint8_t* next) {
  const int64_t dim = rows.item.dim;
  Vec acc[R][NV];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) acc[r][v] = A::start(rows.o + r * rows.padded + d + v * kLanes);
  for (int t = seen.begin / 2 * 2; t < seen.end; t += 2) {
    Vec w[NV];
    A::template values<NV>({at.v, dim, t, d, seen}, w);
    const uint8_t* ahead = next + (t / 2 * dim + d) * A::kPairBytes;
    for (int line = 0; line < NV * kLanes * A::kPairBytes; line += 64)
      __builtin_prefetch(ahead + line);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(rows.p[r * kKeyBlock + t / 2]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) A::add(acc[r][v], w[v], x);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      A::finish(acc[r][v], rows.states[r], rows.o + r * rows.padded + d + v * kLanes);
}

// The columns from d on, NV vectors at a time and then fewer.
template <class A, int R, int NV>
inline void add_pair_values(const Rows& rows, const BlockAt& at, Seen seen, int64_t d,
                            const uint8_t* next) {
  for (; d + NV * kLanes <= rows.padded; d += NV * kLanes)
    pair_values<A, R, NV>(rows, at, seen, d, next);
  if constexpr (NV > 1) add_pair_values<A, R, NV / 2>(rows, at, seen, d, next);
}

template <class A, int R>
void direct_pair_rows(const AttentionItem& item) {
  Rows rows(item, R);
  A::round_queries(rows, R);
  rows.walk([&](KeyBlock block) {
    const Seen seen = seen_keys(item, item.position, block);
    const BlockAt at = block_at(item, block.start);
    const BlockAt next =
        block.start + kKeyBlock <= item.position ? block_at(item, block.start + kKeyBlock) : at;
    if constexpr (A::kScaled) prefetch_block_scales(at.scales.v);
    pair_logits<A, R>(rows, at, seen);
    Seen same[R];
    for (Seen& s : same) s = seen;
    A::template soften<R>(rows, 0, same, at.scales);
    if constexpr (A::kScaled) prefetch_block_scales(next.scales.k);
    add_pair_values<A, R, pair_value_vecs(R)>(rows, at, seen, 0, next.k);
  });
}

template <class A>
void attend_pairs_direct(const AttentionItem& item) {
  with_direct_rows(item.group, [&]<int R>() { direct_pair_rows<A, R>(item); });
}

}  // namespace
}  // namespace ingot::cpu
