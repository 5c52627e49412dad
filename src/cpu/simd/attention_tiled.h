#pragma once

// Prefill: many rows of one kv head share key blocks that are widened to f32 once for all of them
// (attention_body.h).
#include "cpu/simd/attention_rows.h"

namespace ingot::cpu {
namespace {

// c[6][NV] (+)= a[6][steps] b[steps][NV]. The strides of a are constants: six pointers and their
// steps would not fit the general registers.
struct TileCall6 {
  const float* a;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  int steps;
};

template <int NV, bool kAdd, int kRowStride, int kStepStride>
inline void tile(const TileCall6 t) {
  Vec acc[kTileRows][NV];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      acc[i][v] = kAdd ? load(t.c + i * t.c_stride + v * kLanes) : splat(0.0f);
  const float* a = t.a;
  const float* b = t.b;
  for (int s = 0; s < t.steps; ++s, a += kStepStride, b += t.b_stride) {
    Vec w[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) w[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const Vec x = splat(a[i * kRowStride]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) acc[i][v] = mul_add(x, w[v], acc[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) store(t.c + i * t.c_stride + v * kLanes, acc[i][v]);
}

// Queries in the order that tiles read: [row / 6][dim][6]. Rows beyond `real` are zeros.
inline void pack_queries(const Rows& rows, int real) {
  const AttentionItem& item = rows.item;
  for (int r = 0; r < rows.count; ++r) {
    float* to = rows.q + r / kTileRows * kTileRows * item.dim + r % kTileRows;
    const float* q = item.q + r / item.group * item.q_stride + r % item.group * item.dim;
    for (int d = 0; d < item.dim; ++d) to[d * kTileRows] = r < real ? q[d] * item.q_scale : 0;
  }
}

// Tokens [begin, end) of a block, whole key groups, to k[dim][64] and v[64][padded].
template <bool kF32>
inline void widen_block(const Rows& rows, int64_t block, int begin, int end) {
  const AttentionItem& item = rows.item;
  const KvPages& kv = item.kv;
  const int pairs = (item.dim + 1) / 2;
  for (int t = begin; t < end; t += kKeyGroup) {
    const int64_t key = block + t;
    const uint8_t* page = kv.pages + kv.table[key / kv.page_tokens] * kv.page_bytes;
    const int64_t token = key % kv.page_tokens;
    float* to = rows.k_block + t;
    if constexpr (kF32) {
      const float* k = reinterpret_cast<const float*>(page + kv.k_offset) + token * item.dim;
      for (int d = 0; d < item.dim; ++d)
        for (int v = 0; v < kKeyGroup; v += kLanes)
          store(to + d * kKeyBlock + v, load(k + d * kKeyGroup + v));
    } else {
      const uint16_t* k = reinterpret_cast<const uint16_t*>(page + kv.k_offset) + token * pairs * 2;
      for (int j = 0; j < pairs; ++j) {
        for (int v = 0; v < kKeyGroup; v += kLanes) {
          Vec even, odd;
          load_bf16_pairs(k + (j * kKeyGroup + v) * 2, even, odd);
          store(to + 2 * j * kKeyBlock + v, even);
          store(to + (2 * j + 1) * kKeyBlock + v, odd);
        }
      }
    }
    for (int i = 0; i < kKeyGroup; ++i) {
      float* row = rows.v_block + (t + i) * rows.padded;
      int64_t d = 0;
      if constexpr (kF32) {
        const float* v =
            reinterpret_cast<const float*>(page + kv.v_offset) + (token + i) * item.dim;
        for (; d + kLanes <= item.dim; d += kLanes) store(row + d, load(v + d));
        for (; d < item.dim; ++d) row[d] = v[d];
      } else {
        const uint16_t* v =
            reinterpret_cast<const uint16_t*>(page + kv.v_offset) + (token + i) * item.dim;
        for (; d + kLanes <= item.dim; d += kLanes) store(row + d, load_bf16(v + d));
        for (; d < item.dim; ++d) {
          const uint32_t bits = static_cast<uint32_t>(v[d]) << 16;
          __builtin_memcpy(row + d, &bits, sizeof bits);
        }
      }
      for (; d < rows.padded; ++d) row[d] = 0;
    }
  }
}

inline void tile_logits(const Rows& rows, int row, int64_t block, TileKeys keys) {
  const AttentionItem& item = rows.item;
  const int64_t padded = rows.padded;
  constexpr int kStep = kTileVecs * kLanes;
  constexpr int kNarrow = kTileVecs > 2 ? 2 : 1;
  for (int t = keys.begin() / kStep * kStep; t < keys.end(); t += kStep) {
    const TileCall6 call{.a = rows.q + row * item.dim,
                         .b = rows.k_block + t,
                         .b_stride = kKeyBlock,
                         .c = rows.p + row * kKeyBlock + t,
                         .c_stride = kKeyBlock,
                         .steps = item.dim};
    if (keys.end() - t <= kNarrow * kLanes)
      tile<kNarrow, false, 1, kTileRows>(call);
    else
      tile<kTileVecs, false, 1, kTileRows>(call);
  }
  for (int r = row; r < row + kTileRows; ++r) {
    float* p = rows.p + r * kKeyBlock;
    const Seen seen = seen_keys(item, token_of_row(item, r), block);
    if (seen.any()) soften(item, seen, p, rows.states[r], rows.o + r * padded);
    // What other rows of the tile see and this one does not.
    const int begin = seen.any() ? seen.begin / kKeyGroup * kKeyGroup : keys.end();
    const int end = seen.any() ? (seen.end + kKeyGroup - 1) / kKeyGroup * kKeyGroup : keys.end();
    for (int t = keys.begin(); t < begin; ++t) p[t] = 0;
    for (int t = end; t < keys.end(); ++t) p[t] = 0;
  }
}

inline void tile_values(const Rows& rows, int row, TileKeys keys) {
  const int64_t padded = rows.padded;
  const int t = keys.begin();
  const auto at = [&](int64_t d) {
    return TileCall6{.a = rows.p + row * kKeyBlock + t,
                     .b = rows.v_block + t * padded + d,
                     .b_stride = padded,
                     .c = rows.o + row * padded + d,
                     .c_stride = padded,
                     .steps = keys.end() - t};
  };
  int64_t d = 0;
  for (; d + kTileVecs * kLanes <= padded; d += kTileVecs * kLanes)
    tile<kTileVecs, true, kKeyBlock, 1>(at(d));
  for (; d < padded; d += kLanes) tile<1, true, kKeyBlock, 1>(at(d));
}

template <bool kF32>
void tiled(const AttentionItem& item) {
  const int real = item.tokens * item.group;
  Rows rows(item, (real + kTileRows - 1) / kTileRows * kTileRows);
  pack_queries(rows, real);
  const int64_t last = item.position + item.tokens - 1;
  int64_t block = at_least(item.first_range * item.range, rows.first_block(item.position));
  for (int64_t range = item.first_range; range < item.end_range; ++range) {
    const int64_t end = at_most((range + 1) * item.range, last + 1);
    rows.start_range();
    for (; block < end; block += kKeyBlock) {
      const int begin = seen_keys(item, item.position, block).begin / kKeyGroup * kKeyGroup;
      widen_block<kF32>(rows, block, begin, seen_keys(item, last, block).end);
      for (int row = 0; row < rows.count; row += kTileRows) {
        const TileKeys keys = tile_keys(item, row, block);
        if (keys.begin() < keys.end()) tile_logits(rows, row, block, keys);
      }
      for (int row = 0; row < rows.count; row += kTileRows) {
        const TileKeys keys = tile_keys(item, row, block);
        if (keys.begin() < keys.end()) tile_values(rows, row, keys);
      }
    }
    rows.end_range(range);
  }
  rows.finish();
}

void attend_tiled(const AttentionItem& item) {
  item.kv.f32 ? tiled<true>(item) : tiled<false>(item);
}

}  // namespace
}  // namespace ingot::cpu
