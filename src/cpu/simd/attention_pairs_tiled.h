#pragma once

// Prefill by products of pairs of 16-bit words, in the arithmetic A (attention_bf16.h,
// attention_int8.h): many rows of one kv head share a key block, whose V is brought into pairs of
// tokens, and what is kept in 8 bit into words, once for all of them.
#include "cpu/simd/attention_rows.h"

namespace ingot::cpu {
namespace {

// What the rows of a tiled item share of a block.
struct SharedBlock {
  const float* k[kKeyBlock / kKeyGroup];  // [pairs of dimensions][16 tokens] pairs
  float* v;                               // [32][padded] pairs of tokens
};

// A group's K as words.
template <class A>
inline const float* share_keys(const Rows& rows, const uint8_t* k, int token) {
  if constexpr (A::kPairBytes == 4) return reinterpret_cast<const float*>(k);
  const int pairs = (rows.item.dim + 1) / 2;
  float* to = rows.k_block + token * pairs;
  for (int i = 0; i < pairs * kKeyGroup; i += kLanes) store(to + i, A::keys(k + i * A::kPairBytes));
  return to;
}

template <class A>
inline SharedBlock share_block(const Rows& rows, KeyBlock block, Seen seen) {
  SharedBlock shared{{}, rows.v_block};
  const Seen groups = groups_of(seen);
  for (int t = groups.begin; t < groups.end; t += kKeyGroup) {
    const BlockAt at = block_at(rows.item, block.start + t);
    if constexpr (A::kScaled) rows.keep_scales(at.scales, t);
    shared.k[t / kKeyGroup] = share_keys<A>(rows, at.k, t);
    for (int i = 0; i < kKeyGroup; i += 2) {
      float* to = shared.v + (t + i) / 2 * rows.padded;
      for (int64_t d = 0; d < rows.padded; d += 2 * kLanes) {
        Vec w[2];
        A::template values<2>({at.v, rows.item.dim, i, d, {seen.begin - t, seen.end - t}}, w);
        store(to + d, w[0]);
        if (d + kLanes < rows.padded) store(to + d + kLanes, w[1]);
      }
    }
  }
  return shared;
}

// p[6][64] = q[6] K^T for NV vectors of keys. Not inlined: g++ 12 would spill accumulators.
template <class A, int NV>
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
      for (int v = 0; v < NV; ++v) A::add(acc[i][v], w[v], x);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) store(p + i * kKeyBlock + v * kLanes, acc[i][v]);
}

// o[6] += p[6] V for the pairs [begin, end) of tokens.
struct ValuesTile {
  const float* p;       // [6][64]
  const float* values;  // [32][padded] pairs, from the column at hand
  int64_t padded;
  float* o;                // [6][padded], likewise
  const RowState* states;  // [6]
  int begin;
  int end;
};

template <class A, int NV>
[[gnu::noinline]] void values_tile(const ValuesTile& tile) {
  Vec acc[kTileRows][NV];
  const int64_t padded = tile.padded;
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) acc[i][v] = A::start(tile.o + i * padded + v * kLanes);
  const float* values = tile.values + tile.begin * padded;
  const float* const end = tile.p + tile.end;
  for (const float* x = tile.p + tile.begin; x < end; ++x, values += padded) {
    Vec w[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) w[v] = load(values + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const Vec pair = splat(x[i * kKeyBlock]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) A::add(acc[i][v], w[v], pair);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      A::finish(acc[i][v], tile.states[i], tile.o + i * padded + v * kLanes);
}

// f.template operator()<vectors>(), for 1 to kTileVecs.
template <class F>
inline void with_vecs(int64_t vecs, F f) {
  if (vecs == 1) return f.template operator()<1>();
  if (vecs == 2) return f.template operator()<2>();
  if constexpr (kTileVecs > 2) {
    if (vecs == 3) return f.template operator()<3>();
    f.template operator()<4>();
  }
}

// A register tile of rows through a block: three steps over one p [6][64].
template <class A>
inline void tile_pair_logits(const Rows& rows, int row, TileKeys keys, const SharedBlock& shared) {
  const int pairs = (rows.item.dim + 1) / 2;
  const float* q = rows.q + row * rows.padded;
  for (int t = keys.begin() / kLanes * kLanes; t < keys.end(); t += kTileVecs * kLanes) {
    const float* k[kTileVecs];
    const int vecs = static_cast<int>(at_most(kTileVecs, (keys.end() - t + kLanes - 1) / kLanes));
    for (int v = 0; v < vecs; ++v) {
      const int key = t + v * kLanes;
      k[v] = shared.k[key / kKeyGroup] + key % kKeyGroup;
    }
    with_vecs(vecs, [&]<int NV>() { logits_tile<A, NV>(q, rows.padded, k, pairs, rows.p + t); });
  }
}

template <class A>
inline void tile_softmax(const Rows& rows, int row, KeyBlock block) {
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
  A::template soften<kTileRows>(rows, row, seen, rows.kept_scales());
}

template <class A>
inline void tile_pair_values(const Rows& rows, int row, TileKeys keys, const SharedBlock& shared) {
  const int64_t padded = rows.padded;
  ValuesTile tile{.p = rows.p,
                  .values = shared.v,
                  .padded = padded,
                  .o = rows.o + row * padded,
                  .states = rows.states + row,
                  .begin = keys.begin() / 2,
                  .end = (keys.end() + 1) / 2};
  for (int64_t d = 0; d < padded; d += kTileVecs * kLanes) {
    with_vecs(at_most(kTileVecs, (padded - d) / kLanes),
              [&]<int NV>() { values_tile<A, NV>(tile); });
    tile.values += kTileVecs * kLanes;
    tile.o += kTileVecs * kLanes;
  }
}

template <class A>
void attend_pairs_tiled(const AttentionItem& item) {
  const int real = item.tokens * item.group;
  Rows rows(item, (real + kTileRows - 1) / kTileRows * kTileRows);
  A::round_queries(rows, real);
  const int64_t last = item.position + item.tokens - 1;
  rows.walk([&](KeyBlock block) {
    const SharedBlock shared = share_block<A>(
        rows, block,
        {seen_keys(item, item.position, block).begin, seen_keys(item, last, block).end});
    for (int row = 0; row < rows.count; row += kTileRows) {
      const TileKeys keys = tile_keys(item, row, block);
      if (keys.begin() >= keys.end()) continue;
      tile_pair_logits<A>(rows, row, keys, shared);
      tile_softmax<A>(rows, row, block);
      tile_pair_values<A>(rows, row, keys, shared);
    }
  });
}

}  // namespace
}  // namespace ingot::cpu
