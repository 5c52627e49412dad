#pragma once

// Decode: one token's rows of one kv head, K and V straight from the pages (attention_body.h).
#include "cpu/simd/attention_rows.h"

namespace ingot::cpu {
namespace {

// p[R][64] = q[R][dim] K^T for the keys [begin, end) of a block, in steps of kVecs vectors.
template <int R, bool kF32>
inline void direct_logits(const AttentionItem& item, const float* q, int64_t q_stride, BlockAt at,
                          Seen seen, float* p) {
  constexpr int kVecs = direct_vecs(R);
  constexpr int kStep = kVecs * kLanes;
  const int pairs = (item.dim + 1) / 2;
  for (int t = seen.begin / kStep * kStep; t < seen.end; t += kStep) {
    Vec acc[R][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc[r][v] = splat(0.0f);
    if constexpr (kF32) {
      const float* k = reinterpret_cast<const float*>(at.k);
      for (int d = 0; d < item.dim; ++d) {
        Vec w[kVecs];
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) {
          const int key = t + v * kLanes;
          w[v] = load(k + (key / kKeyGroup * item.dim + d) * kKeyGroup + key % kKeyGroup);
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const Vec x = splat(q[r * q_stride + d]);
#pragma GCC unroll 8
          for (int v = 0; v < kVecs; ++v) acc[r][v] = mul_add(x, w[v], acc[r][v]);
        }
      }
    } else {
      const uint16_t* k = reinterpret_cast<const uint16_t*>(at.k);
      for (int j = 0; j < pairs; ++j) {
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) {
          const int key = t + v * kLanes;
          const uint16_t* words =
              k + ((key / kKeyGroup * pairs + j) * kKeyGroup + key % kKeyGroup) * 2;
          if (key % kKeyGroup == 0) __builtin_prefetch(words + kKeyBlock * item.dim);  // V
          Vec even, odd;
          load_bf16_pairs(words, even, odd);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const float* x = q + r * q_stride + 2 * j;  // padded with a zero where dim is odd
            acc[r][v] = mul_add(splat(x[0]), even, acc[r][v]);
            acc[r][v] = mul_add(splat(x[1]), odd, acc[r][v]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(p + r * kKeyBlock + t + v * kLanes, acc[r][v]);
  }
}

template <bool kF32>
inline Vec load_value(const uint8_t* v, int64_t index) {
  if constexpr (kF32) return load(reinterpret_cast<const float*>(v) + index);
  return load_bf16(reinterpret_cast<const uint16_t*>(v) + index);
}

// o[R][kVecs] += p[R][64] V for the keys [begin, end), from column d.
template <int R, int kVecs, bool kF32>
inline void direct_values(const AttentionItem& item, BlockAt at, Seen seen, const float* p,
                          float* o, int d, const uint8_t* next) {
  const int64_t padded = padded_dim(item.dim);
  Vec acc[R][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) acc[r][v] = load(o + r * padded + d + v * kLanes);
  for (int t = seen.begin; t < seen.end; ++t) {
    const int64_t index = static_cast<int64_t>(t) * item.dim + d;
    Vec w[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) w[v] = load_value<kF32>(at.v, index + v * kLanes);
    for (int line = 0; line < kVecs * kLanes; line += 32)
      __builtin_prefetch(next + (index + line) * (kF32 ? 4 : 2));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(p[r * kKeyBlock + t]);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc[r][v] = mul_add(x, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(o + r * padded + d + v * kLanes, acc[r][v]);
}

// The columns that fill no vector.
template <bool kF32>
inline void direct_tail(const AttentionItem& item, BlockAt at, Seen seen, const float* p, float* o,
                        int d) {
  const int64_t padded = padded_dim(item.dim);
  for (int r = 0; r < item.group; ++r) {
    for (int column = d; column < item.dim; ++column) {
      float sum = o[r * padded + column];
      for (int t = seen.begin; t < seen.end; ++t) {
        const int64_t index = static_cast<int64_t>(t) * item.dim + column;
        float x;
        if constexpr (kF32) {
          x = reinterpret_cast<const float*>(at.v)[index];
        } else {
          const uint32_t bits =
              static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(at.v)[index]) << 16;
          __builtin_memcpy(&x, &bits, sizeof x);
        }
        sum = mul_add(p[r * kKeyBlock + t], x, sum);
      }
      o[r * padded + column] = sum;
    }
  }
}

template <int R, bool kF32>
void direct_rows(const AttentionItem& item) {
  constexpr int kVecs = direct_vecs(R);
  Rows rows(item, R);
  rows.load_queries(R);
  int64_t block = at_least(item.first_range * item.range, rows.first_block(item.position));
  for (int64_t range = item.first_range; range < item.end_range; ++range) {
    const int64_t end = at_most((range + 1) * item.range, item.position + 1);
    rows.start_range();
    for (; block < end; block += kKeyBlock) {
      const Seen seen = seen_keys(item, item.position, block);
      const BlockAt at = block_at(item, block);
      const uint8_t* next =
          block + kKeyBlock <= item.position ? block_at(item, block + kKeyBlock).k : at.k;
      direct_logits<R, kF32>(item, rows.q, rows.padded, at, seen, rows.p);
      for (int r = 0; r < R; ++r)
        soften(item, seen, rows.p + r * kKeyBlock, rows.states[r], rows.o + r * rows.padded);
      int d = 0;
      for (; d + kVecs * kLanes <= item.dim; d += kVecs * kLanes)
        direct_values<R, kVecs, kF32>(item, at, seen, rows.p, rows.o, d, next);
      for (; d + kLanes <= item.dim; d += kLanes)
        direct_values<R, 1, kF32>(item, at, seen, rows.p, rows.o, d, next);
      if (d < item.dim) direct_tail<kF32>(item, at, seen, rows.p, rows.o, d);
    }
    rows.end_range(range);
  }
  rows.finish();
}

template <bool kF32>
void direct(const AttentionItem& item) {
  with_direct_rows(item.group, [&]<int R>() { direct_rows<R, kF32>(item); });
}

void attend_direct(const AttentionItem& item) {
  item.kv.f32 ? direct<true>(item) : direct<false>(item);
}

}  // namespace
}  // namespace ingot::cpu
