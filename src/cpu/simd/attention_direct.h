#pragma once

// Decode in f32: one token's rows of one kv head, K and V straight from the pages
// (attention_body.h).
#include "cpu/simd/attention_rows.h"
#include "cpu/simd/attention_store.h"

namespace ingot::cpu {
namespace {

// p[R][64] = q[R][dim] K^T for the keys [begin, end) of a block, in steps of kVecs vectors. V is
// prefetched on the way.
template <int R, class Store>
inline void direct_logits(const Rows& rows, const BlockAt& at, Seen seen) {
  constexpr int kVecs = direct_vecs(R);
  constexpr int kStep = kVecs * kLanes;
  constexpr int64_t kUnit = key_unit(Store::kStore);
  constexpr int64_t kBytes = kUnit * value_bytes(Store::kStore);  // of a key in a step of dim
  const int64_t units = (rows.item.dim + kUnit - 1) / kUnit;
  for (int t = seen.begin / kStep * kStep; t < seen.end; t += kStep) {
    Vec acc[R][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc[r][v] = splat(0.0f);
    const uint8_t* ahead = at.v + t * units * kBytes;
    for (int64_t j = 0; j < units; ++j, ahead += kStep * kBytes) {
      for (int line = 0; line < kStep * kBytes; line += 64) __builtin_prefetch(ahead + line);
      const float* q = rows.q + j * kUnit;  // padded with a zero where dim is odd
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const int key = t + v * kLanes;
        const uint8_t* k =
            at.k + ((key / kKeyGroup * units + j) * kKeyGroup + key % kKeyGroup) * kBytes;
        if constexpr (kUnit == 1) {
          const Vec w = Store::values(k);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) acc[r][v] = mul_add(splat(q[r * rows.padded]), w, acc[r][v]);
        } else {
          Vec even, odd;
          Store::pairs(k, even, odd);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            acc[r][v] = mul_add(splat(q[r * rows.padded]), even, acc[r][v]);
            acc[r][v] = mul_add(splat(q[r * rows.padded + 1]), odd, acc[r][v]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(rows.p + r * kKeyBlock + t + v * kLanes, acc[r][v]);
  }
}

// o[R][kVecs] += p[R][64] V for the keys seen, from column d. K of the next block is prefetched on
// the way.
template <int R, int kVecs, class Store>
inline void direct_values(const Rows& rows, const BlockAt& at, Seen seen, int64_t d,
                          const uint8_t* next) {
  constexpr int64_t kBytes = value_bytes(Store::kStore);
  Vec acc[R][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) acc[r][v] = load(rows.o + r * rows.padded + d + v * kLanes);
  for (int t = seen.begin; t < seen.end; ++t) {
    const int64_t row = (static_cast<int64_t>(t) * rows.item.dim + d) * kBytes;
    Vec w[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) w[v] = Store::values(at.v + row + v * kLanes * kBytes);
    for (int line = 0; line < kVecs * kLanes * kBytes; line += 64)
      __builtin_prefetch(next + row + line);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(rows.p[r * kKeyBlock + t]);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc[r][v] = mul_add(x, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(rows.o + r * rows.padded + d + v * kLanes, acc[r][v]);
}

// The same in 8 bit, where pairs of tokens lie beside each other. What lies behind the columns of a
// row is read too and goes where nobody looks; of a key that no row sees the weight is 0.
template <int R, int kVecs, class Store>
inline void direct_value_pairs(const Rows& rows, const BlockAt& at, Seen seen, int64_t d,
                               const uint8_t* next) {
  Vec acc[R][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) acc[r][v] = load(rows.o + r * rows.padded + d + v * kLanes);
  for (int t = seen.begin / 2 * 2; t < seen.end; t += 2) {
    const int64_t row = static_cast<int64_t>(t) * rows.item.dim + 2 * d;
    for (int line = 0; line < kVecs * kLanes * 2; line += 64) __builtin_prefetch(next + row + line);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      Vec even, odd;
      Store::pairs(at.v + row + v * kLanes * 2, even, odd);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const float* p = rows.p + r * kKeyBlock + t;
        acc[r][v] = mul_add(splat(p[0]), even, acc[r][v]);
        acc[r][v] = mul_add(splat(p[1]), odd, acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(rows.o + r * rows.padded + d + v * kLanes, acc[r][v]);
}

// The columns that fill no vector.
template <class Store>
inline void direct_tail(const Rows& rows, const BlockAt& at, Seen seen, int64_t d) {
  const int dim = rows.item.dim;
  for (int r = 0; r < rows.item.group; ++r) {
    for (int64_t column = d; column < dim; ++column) {
      float sum = rows.o[r * rows.padded + column];
      for (int t = seen.begin; t < seen.end; ++t) {
        const int64_t index = static_cast<int64_t>(t) * dim + column;
        sum = mul_add(rows.p[r * kKeyBlock + t],
                      Store::value(at.v + index * value_bytes(Store::kStore)), sum);
      }
      rows.o[r * rows.padded + column] = sum;
    }
  }
}

// The values of all columns.
template <int R, class Store>
inline void add_values(const Rows& rows, const BlockAt& at, Seen seen, const uint8_t* next) {
  constexpr int kVecs = direct_vecs(R);
  const int dim = rows.item.dim;
  int64_t d = 0;
  if constexpr (has_scales(Store::kStore)) {
    for (; d + kVecs * kLanes <= rows.padded; d += kVecs * kLanes)
      direct_value_pairs<R, kVecs, Store>(rows, at, seen, d, next);
    for (; d < rows.padded; d += kLanes) direct_value_pairs<R, 1, Store>(rows, at, seen, d, next);
  } else {
    for (; d + kVecs * kLanes <= dim; d += kVecs * kLanes)
      direct_values<R, kVecs, Store>(rows, at, seen, d, next);
    for (; d + kLanes <= dim; d += kLanes) direct_values<R, 1, Store>(rows, at, seen, d, next);
    if (d < dim) direct_tail<Store>(rows, at, seen, d);
  }
}

template <int R, class Store>
void direct_rows(const AttentionItem& item) {
  Rows rows(item, R);
  rows.load_queries(R);
  rows.walk([&](KeyBlock block) {
    const Seen seen = seen_keys(item, item.position, block);
    const BlockAt at = block_at(item, block.start);
    const BlockAt next =
        block.start + kKeyBlock <= item.position ? block_at(item, block.start + kKeyBlock) : at;
    if constexpr (has_scales(Store::kStore)) prefetch_block_scales(at.scales.v);
    direct_logits<R, Store>(rows, at, seen);
    for (int r = 0; r < R; ++r) {
      float* p = rows.p + r * kKeyBlock;
      float* o = rows.o + r * rows.padded;
      soften<has_scales(Store::kStore)>(item, seen, at.scales, p, rows.states[r], o);
    }
    if constexpr (has_scales(Store::kStore)) prefetch_block_scales(next.scales.k);
    add_values<R, Store>(rows, at, seen, next.k);
  });
}

template <class Store>
void attend_direct(const AttentionItem& item) {
  with_direct_rows(item.group, [&]<int R>() { direct_rows<R, Store>(item); });
}

}  // namespace
}  // namespace ingot::cpu
