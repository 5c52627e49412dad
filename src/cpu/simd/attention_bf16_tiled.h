#pragma once

// Prefill with BF16 instructions: many rows of one kv head share a key block, whose V is brought
// into pairs of tokens once for all of them (attention_bf16_rows.h).
#include "cpu/simd/attention_bf16_rows.h"

namespace ingot::cpu {
namespace {

// What the rows of a tiled item share of a block: K where it lies, V in pairs of tokens.
struct SharedBlock {
  const float* k[kKeyBlock / kKeyGroup];
  float* v;  // [32][padded] pairs
};

inline SharedBlock share_block(const Rows& rows, int64_t block, Seen seen) {
  const int dim = rows.item.dim;
  SharedBlock shared{{}, rows.v_block};
  for (int t = seen.begin / kKeyGroup * kKeyGroup; t < seen.end; t += kKeyGroup) {
    const BlockAt at = block_at(rows.item, block + t);
    shared.k[t / kKeyGroup] = reinterpret_cast<const float*>(at.k);
    const auto* values = reinterpret_cast<const uint16_t*>(at.v);
    for (int i = 0; i < kKeyGroup; i += 2) {
      const ValuePair pair = value_pair(values, dim, i, {seen.begin - t, seen.end - t});
      float* to = shared.v + (t + i) / 2 * rows.padded;
      for (int d = 0; d < dim; d += 32) {
        Vec low, high;
        interleave(load_halves(pair.even, d, dim), load_halves(pair.odd, d, dim), low, high);
        store(to + d, low);
        if (d + 16 < dim) store(to + d + 16, high);
      }
    }
  }
  return shared;
}

// p[6][64] = q[6] K^T for NV groups of keys. Not inlined: g++ 12 would spill accumulators.
template <int NV>
[[gnu::noinline]] void logits_tile(const float* q, int64_t q_stride, const float* const* k,
                                   int pairs, float* p) {
  Vec acc[kTileRows][NV];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) acc[i][v] = splat(0.0f);
  const float* keys[NV];
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v) keys[v] = k[v];
  // Two pointers and a stride reach six rows.
  const float* const halves[2] = {q, q + 3 * q_stride};
  for (int64_t j = 0; j < pairs; ++j) {
    Vec w[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) w[v] = load(keys[v] + j * kKeyGroup);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const Vec x = splat(halves[i / 3][i % 3 * q_stride + j]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) add_dots(acc[i][v], w[v], x);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) store(p + i * kKeyBlock + v * kLanes, acc[i][v]);
}

// o[6][NV vectors] += p[6] V for the pairs [begin, end).
template <int NV>
[[gnu::noinline]] void values_tile(const float* p, const float* v_block, int64_t padded, float* o,
                                   int begin, int end) {
  Vec acc[kTileRows][NV];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) acc[i][v] = load(o + i * padded + v * kLanes);
  const float* values = v_block + begin * padded;
  for (const float* x = p + begin; x < p + end; ++x, values += padded) {
    Vec w[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) w[v] = load(values + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const Vec pair = splat(x[i * kKeyBlock]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) add_dots(acc[i][v], w[v], pair);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) store(o + i * padded + v * kLanes, acc[i][v]);
}

// A register tile of rows through a block: three steps over one p [6][64].
inline void tile_logits(const Rows& rows, int row, TileKeys keys, const SharedBlock& shared) {
  const int pairs = (rows.item.dim + 1) / 2;
  const float* q = rows.q + row * rows.padded;
  const int first = keys.begin() / kKeyGroup;
  const float* const* k = shared.k + first;
  float* p = rows.p + first * kKeyGroup;
  switch ((keys.end() + kKeyGroup - 1) / kKeyGroup - first) {
    case 1:
      return logits_tile<1>(q, rows.padded, k, pairs, p);
    case 2:
      return logits_tile<2>(q, rows.padded, k, pairs, p);
    case 3:
      return logits_tile<3>(q, rows.padded, k, pairs, p);
    case 4:
      return logits_tile<4>(q, rows.padded, k, pairs, p);
  }
}

inline void tile_softmax(const Rows& rows, int row, int64_t block) {
  const AttentionItem& item = rows.item;
  Seen seen[kTileRows];
  int token = row / item.group;
  int head = row % item.group;
  for (Seen& s : seen) {
    s = seen_keys(item, item.position + at_most(token, item.tokens - 1), block);
    if (++head < item.group) continue;
    head = 0;
    ++token;
  }
  soften_to_bf16<kTileRows>(rows, row, seen, rows.p);
}

inline void tile_values(const Rows& rows, int row, TileKeys keys, const SharedBlock& shared) {
  const int begin = keys.begin() / 2;
  const int end = (keys.end() + 1) / 2;
  const int64_t padded = rows.padded;
  float* o = rows.o + row * padded;
  int64_t d = 0;
  for (; d + 64 <= padded; d += 64) values_tile<4>(rows.p, shared.v + d, padded, o + d, begin, end);
  switch ((padded - d) / kLanes) {
    case 1:
      return values_tile<1>(rows.p, shared.v + d, padded, o + d, begin, end);
    case 2:
      return values_tile<2>(rows.p, shared.v + d, padded, o + d, begin, end);
    case 3:
      return values_tile<3>(rows.p, shared.v + d, padded, o + d, begin, end);
  }
}

inline void run_block(const Rows& rows, int64_t block, const SharedBlock& shared) {
  for (int row = 0; row < rows.count; row += kTileRows) {
    const TileKeys keys = tile_keys(rows.item, row, block);
    if (keys.begin() >= keys.end()) continue;
    tile_logits(rows, row, keys, shared);
    tile_softmax(rows, row, block);
    tile_values(rows, row, keys, shared);
  }
}

void attend_tiled(const AttentionItem& item) {
  const int real = item.tokens * item.group;
  Rows rows(item, (real + kTileRows - 1) / kTileRows * kTileRows);
  round_queries(rows, real);
  const int64_t last = item.position + item.tokens - 1;
  int64_t block = at_least(item.first_range * item.range, rows.first_block(item.position));
  for (int64_t range = item.first_range; range < item.end_range; ++range) {
    const int64_t end = at_most((range + 1) * item.range, last + 1);
    rows.start_range();
    for (; block < end; block += kKeyBlock) {
      const Seen seen{seen_keys(item, item.position, block).begin,
                      seen_keys(item, last, block).end};
      run_block(rows, block, share_block(rows, block, seen));
    }
    rows.end_range(range);
  }
  rows.finish();
}

}  // namespace
}  // namespace ingot::cpu
