#pragma once

// Decode with BF16 instructions: one token's rows of one kv head, K and V straight from the pages
// (attention_bf16_rows.h).
#include "cpu/simd/attention_bf16_rows.h"

namespace ingot::cpu {
namespace {

// p[R][64] = q[R] K^T. V is prefetched on the way, in the order that direct_values reads it.
template <int R>
inline void direct_logits(const Rows& rows, BlockAt at, Seen seen) {
  constexpr int kVecs = direct_vecs(R);
  constexpr int kStep = kVecs * kLanes;
  const int pairs = (rows.item.dim + 1) / 2;
  const int64_t group_bytes = pairs * int64_t{64};
  for (int t = seen.begin / kStep * kStep; t < seen.end; t += kStep) {
    Vec acc[R][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc[r][v] = splat(0.0f);
    const uint8_t* k = at.k + t / kKeyGroup * group_bytes;
    const uint8_t* ahead = at.v + t / kKeyGroup * group_bytes;
    const float* q = rows.q;
    for (int j = 0; j < pairs; ++j, k += 64, ahead += kVecs * 64, ++q) {
      Vec w[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        w[v] = load(reinterpret_cast<const float*>(k + v * group_bytes));
        __builtin_prefetch(ahead + v * 64);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec x = splat(q[r * rows.padded]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) add_dots(acc[r][v], w[v], x);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(rows.p + r * kKeyBlock + t + v * kLanes, acc[r][v]);
  }
}

// o[R] += p[R] V for kChunks times 32 columns from d on, of which the last may be partly there.
// K of the next block is prefetched on the way.
template <int R, int kChunks>
inline void direct_values(const Rows& rows, BlockAt at, Seen seen, int d, const uint8_t* next) {
  const int dim = rows.item.dim;
  const bool both = d + 16 < dim;
  const auto* values = reinterpret_cast<const uint16_t*>(at.v);
  Vec acc[R][2 * kChunks];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kChunks; ++v)
      acc[r][v] = both || v == 0 ? load(rows.o + r * rows.padded + d + v * kLanes) : splat(0.0f);
  for (int t = seen.begin / 2 * 2; t < seen.end; t += 2) {
    const ValuePair pair = value_pair(values, dim, t, seen);
    const uint8_t* ahead = next + (static_cast<int64_t>(t) * dim + d) * 2;
    Vec w[2 * kChunks];
#pragma GCC unroll 8
    for (int c = 0; c < kChunks; ++c) {
      interleave(load_halves(pair.even, d + c * 32, dim), load_halves(pair.odd, d + c * 32, dim),
                 w[2 * c], w[2 * c + 1]);
      __builtin_prefetch(ahead + c * 64);
      __builtin_prefetch(ahead + c * 64 + dim * 2);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(rows.p[r * kKeyBlock + t / 2]);
#pragma GCC unroll 8
      for (int v = 0; v < 2 * kChunks; ++v) add_dots(acc[r][v], w[v], x);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < 2 * kChunks; ++v)
      if (both || v == 0) store(rows.o + r * rows.padded + d + v * kLanes, acc[r][v]);
}

template <int R>
void direct_rows(const AttentionItem& item) {
  constexpr int kChunks = R <= 2 ? 4 : R <= 5 ? 2 : 1;
  Rows rows(item, R);
  round_queries(rows, R);
  int64_t block = at_least(item.first_range * item.range, rows.first_block(item.position));
  for (int64_t range = item.first_range; range < item.end_range; ++range) {
    const int64_t end = at_most((range + 1) * item.range, item.position + 1);
    rows.start_range();
    for (; block < end; block += kKeyBlock) {
      const Seen seen = seen_keys(item, item.position, block);
      const BlockAt at = block_at(item, block);
      const uint8_t* next =
          block + kKeyBlock <= item.position ? block_at(item, block + kKeyBlock).k : at.k;
      direct_logits<R>(rows, at, seen);
      Seen same[R];
      for (Seen& s : same) s = seen;
      soften_to_bf16<R>(rows, 0, same, rows.p);
      int d = 0;
      for (; d + kChunks * 32 <= item.dim; d += kChunks * 32)
        direct_values<R, kChunks>(rows, at, seen, d, next);
      if constexpr (kChunks > 2)
        for (; d + 64 <= item.dim; d += 64) direct_values<R, 2>(rows, at, seen, d, next);
      for (; d < item.dim; d += 32) direct_values<R, 1>(rows, at, seen, d, next);
    }
    rows.end_range(range);
  }
  rows.finish();
}

void attend_direct(const AttentionItem& item) {
  with_direct_rows(item.group, [&]<int R>() { direct_rows<R>(item); });
}

}  // namespace
}  // namespace ingot::cpu
