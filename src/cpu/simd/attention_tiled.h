#pragma once

// Prefill in f32: many rows of one kv head share key blocks that are widened once for all of them
// (attention_body.h).
#include "cpu/simd/attention_rows.h"
#include "cpu/simd/attention_store.h"

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

// K of a key group at `token` of a block, to k[dim][64].
template <class Store>
inline void widen_keys(const Rows& rows, const uint8_t* k, int token) {
  constexpr int64_t kUnit = key_unit(Store::kStore);
  const int64_t units = (rows.item.dim + kUnit - 1) / kUnit;
  float* to = rows.k_block + token;
  for (int64_t j = 0; j < units; ++j) {
    for (int v = 0; v < kKeyGroup; v += kLanes) {
      const uint8_t* from = k + (j * kKeyGroup + v) * kUnit * value_bytes(Store::kStore);
      if constexpr (kUnit == 1) {
        store(to + j * kKeyBlock + v, Store::values(from));
      } else {
        Vec even, odd;
        Store::pairs(from, even, odd);
        store(to + 2 * j * kKeyBlock + v, even);
        store(to + (2 * j + 1) * kKeyBlock + v, odd);
      }
    }
  }
}

// V of a key group, to v[64][padded]. In 8 bit what lies behind the columns of a row comes along.
template <class Store>
inline void widen_values(const Rows& rows, const uint8_t* v, int token) {
  const int64_t dim = rows.item.dim;
  float* to = rows.v_block + token * rows.padded;
  if constexpr (has_scales(Store::kStore)) {
    for (int i = 0; i < kKeyGroup; i += 2, v += 2 * dim, to += 2 * rows.padded) {
      for (int64_t d = 0; d < rows.padded; d += kLanes) {
        Vec even, odd;
        Store::pairs(v + 2 * d, even, odd);
        store(to + d, even);
        store(to + rows.padded + d, odd);
      }
    }
  } else {
    constexpr int64_t kBytes = value_bytes(Store::kStore);
    for (int i = 0; i < kKeyGroup; ++i, v += dim * kBytes, to += rows.padded) {
      int64_t d = 0;
      for (; d + kLanes <= dim; d += kLanes) store(to + d, Store::values(v + d * kBytes));
      for (; d < dim; ++d) to[d] = Store::value(v + d * kBytes);
      for (; d < rows.padded; ++d) to[d] = 0;
    }
  }
}

// Tokens [begin, end) of a block, whole key groups, as floats.
template <class Store>
inline void widen_block(const Rows& rows, KeyBlock block, int begin, int end) {
  for (int t = begin; t < end; t += kKeyGroup) {
    const BlockAt at = block_at(rows.item, block.start + t);
    widen_keys<Store>(rows, at.k, t);
    widen_values<Store>(rows, at.v, t);
    if constexpr (has_scales(Store::kStore)) rows.keep_scales(at.scales, t);
  }
}

template <class Store>
inline void tile_logits(const Rows& rows, int row, KeyBlock block, TileKeys keys) {
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
    if (seen.any())
      soften<has_scales(Store::kStore)>(item, seen, rows.kept_scales(), p, rows.states[r],
                                        rows.o + r * padded);
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

template <class Store>
void attend_tiled(const AttentionItem& item) {
  const int real = item.tokens * item.group;
  Rows rows(item, (real + kTileRows - 1) / kTileRows * kTileRows);
  pack_queries(rows, real);
  const int64_t last = item.position + item.tokens - 1;
  rows.walk([&](KeyBlock block) {
    const int begin = groups_of(seen_keys(item, item.position, block)).begin;
    widen_block<Store>(rows, block, begin, seen_keys(item, last, block).end);
    for (int row = 0; row < rows.count; row += kTileRows) {
      const TileKeys keys = tile_keys(item, row, block);
      if (keys.begin() < keys.end()) tile_logits<Store>(rows, row, block, keys);
    }
    for (int row = 0; row < rows.count; row += kTileRows) {
      const TileKeys keys = tile_keys(item, row, block);
      if (keys.begin() < keys.end()) tile_values(rows, row, keys);
    }
  });
}

}  // namespace
}  // namespace ingot::cpu
