#pragma once

// Rows of queries on their way through the keys: what attention_direct.h and attention_tiled.h
// share. Over the vectors of the vec_*.h included before; see attention.h.
#include "cpu/simd/attention_softmax.h"

namespace ingot::cpu {
namespace {

inline int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
inline int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Keys [start, start + 64), as sinks or in the window: a block may be visited as both, for what a
// row sees of it is one stretch each time.
struct KeyBlock {
  int64_t start;
  bool sinks;
};

// The first key in the window of a row at `position`.
inline int64_t window_start(const AttentionItem& item, int64_t position) {
  return item.window > 0 ? at_least(0, position - item.window + 1) : 0;
}

inline Seen seen_keys(const AttentionItem& item, int64_t position, KeyBlock block) {
  const int64_t low = window_start(item, position);
  if (block.sinks)
    return {0, static_cast<int>(at_most(kKeyBlock, at_most(item.sinks, low) - block.start))};
  return {static_cast<int>(at_least(0, low - block.start)),
          static_cast<int>(at_most(kKeyBlock, position + 1 - block.start))};
}

// Keys that any row of a register tile sees; rows are in order of their tokens.
struct TileKeys {
  Seen first;  // of the first row
  Seen last;   // of the last row
  int begin() const { return first.begin; }
  int end() const { return last.end; }
};

inline int64_t token_of_row(const AttentionItem& item, int row) {
  const int token = row / item.group;
  return item.position + (token < item.tokens ? token : item.tokens - 1);
}

inline TileKeys tile_keys(const AttentionItem& item, int row, KeyBlock block) {
  return {seen_keys(item, token_of_row(item, row), block),
          seen_keys(item, token_of_row(item, row + kTileRows - 1), block)};
}

// K, V and scales of a key, at the start of a group of 16. Scales lie in a row as far as the page
// reaches.
struct BlockAt {
  const uint8_t* k;
  const uint8_t* v;
  BlockScales scales;
};

inline BlockAt block_at(const AttentionItem& item, int64_t key) {
  const KvPages& kv = item.kv;
  const uint8_t* page = kv.pages + kv.table[key / kv.page_tokens] * kv.page_bytes;
  const int64_t token = key % kv.page_tokens;
  const int64_t bytes = value_bytes(kv.store);
  const int64_t unit = key_unit(kv.store);
  const auto* scales = reinterpret_cast<const float*>(page + kv.scale_offset);
  return {page + kv.k_offset + token * ((item.dim + unit - 1) / unit * unit) * bytes,
          page + kv.v_offset + token * item.dim * bytes,
          {scales + token, scales + kv.page_tokens + token}};
}

// V of a pair of tokens, `token` and the next, from column d on; for attention_pairs_*.h.
struct ValuesAt {
  const uint8_t* v;  // of a block or group
  int64_t dim;
  int token;
  int64_t d;
  Seen seen;
};

inline void prefetch_block_scales(const float* scales) {
  for (int k = 0; k < kKeyBlock; k += 16) __builtin_prefetch(scales + k);
}

// Vectors that R rows keep beside each other: a power of two, so that a block is whole steps.
constexpr int direct_vecs(int rows) {
  const int fit = kAccumulators / rows;
  const int vecs = fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
  return vecs < kVecsOfBlock ? vecs : kVecsOfBlock;
}

// `f.template operator()<rows>()`, for the rows of a direct item.
template <class F>
inline void with_direct_rows(int rows, F f) {
  switch (rows) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    case 6:
      return f.template operator()<6>();
    case 7:
      return f.template operator()<7>();
    case 8:
      return f.template operator()<8>();
  }
}

inline void copy_scaled(const float* q, int dim, float scale, float* out) {
  const Vec factor = splat(scale);
  int d = 0;
  for (; d + kLanes <= dim; d += kLanes) store(out + d, mul(load(q + d), factor));
  for (; d < dim; ++d) out[d] = q[d] * scale;
}

// The scratch of an item, laid out, and the walk over its blocks of keys.
struct Rows {
  const AttentionItem& item;
  const int count;       // rows computed: whole register tiles in attention_tiled.h
  const int64_t padded;  // floats of a row of q, o, merged
  float* q;              // [count][padded], scaled
  float* o;              // [count][padded], of the part at hand
  float* merged;         // [count][padded], of the parts before
  float* p;              // [count][64]
  RowState* states;      // [count]
  float* merged_states;  // [count][16]: maximum, sum
  float* k_block;        // [dim][64]
  float* v_block;        // [64][padded]
  float* scales;         // [2][64], of K and of V

  Rows(const AttentionItem& i, int n) : item(i), count(n), padded(padded_dim(i.dim)) {
    q = i.scratch;
    o = q + n * padded;
    merged = o + n * padded;
    p = merged + n * padded;
    states = reinterpret_cast<RowState*>(p + n * kKeyBlock);
    merged_states = reinterpret_cast<float*>(states + n);
    k_block = merged_states + n * 16;
    v_block = k_block + kKeyBlock * padded;
    scales = v_block + kKeyBlock * padded;
    for (int r = 0; r < n; ++r) merged_states[r * 16 + 1] = 0;
  }

  // The first `real` rows from the item, the rest zeros.
  void load_queries(int real) {
    for (int r = 0; r < count; ++r) {
      float* row = q + r * padded;
      const int64_t dim = r < real ? item.dim : 0;
      if (r < real)
        copy_scaled(item.q + r / item.group * item.q_stride + r % item.group * item.dim, item.dim,
                    item.q_scale, row);
      for (int64_t d = dim; d < padded; ++d) row[d] = 0;
    }
  }

  // Scales of the group at `token` of a block: the next may lie in another page.
  void keep_scales(BlockScales from, int token) const {
    for (int i = 0; i < kKeyGroup; i += kLanes) {
      store(scales + token + i, load(from.k + i));
      store(scales + kKeyBlock + token + i, load(from.v + i));
    }
  }
  BlockScales kept_scales() const { return {scales, scales + kKeyBlock}; }

  // f(block) for every block that a row of the item sees, in ascending order, then the results.
  template <class F>
  void walk(F f) {
    const int64_t last = item.position + item.tokens - 1;
    if (item.with_sinks) {
      const int64_t end = at_most(item.sinks, window_start(item, last));
      start_part();
      for (int64_t block = 0; block < end; block += kKeyBlock) f(KeyBlock{block, true});
      end_part();
    }
    const int64_t first = window_start(item, item.position) / kKeyBlock * kKeyBlock;
    int64_t block = at_least(item.first_range * item.range, first);
    for (int64_t range = item.first_range; range < item.end_range; ++range) {
      const int64_t end = at_most((range + 1) * item.range, last + 1);
      start_part();
      for (; block < end; block += kKeyBlock) f(KeyBlock{block, false});
      end_part();
    }
    finish();
  }

 private:
  void start_part() {
    for (int r = 0; r < count; ++r) start_row(states[r]);
    for (int64_t i = 0; i < count * padded; i += kLanes) store(o + i, splat(0.0f));
  }

  void end_part() {
    const int real = item.tokens * item.group;
    for (int r = 0; r < real; ++r) {
      const Gathered next{states[r].top, sum_of_16(states[r].sums), o + r * padded};
      if (item.partial) {
        float* part = item.partial + r * partial_floats(item.dim);
        part[0] = next.top;
        part[1] = next.sum;
        for (int64_t d = 0; d < padded; d += kLanes) store(part + 16 + d, load(next.o + d));
      } else {
        float* state = merged_states + r * 16;
        Gathered all{state[0], state[1], merged + r * padded};
        join(all, next, static_cast<int>(padded));
        state[0] = all.top;
        state[1] = all.sum;
      }
    }
  }

  void finish() const {
    if (item.partial) return;
    for (int r = 0; r < item.tokens * item.group; ++r)
      write_result({merged_states[r * 16], merged_states[r * 16 + 1], merged + r * padded},
                   item.dim,
                   item.out + r / item.group * item.out_stride + r % item.group * item.dim);
  }
};

}  // namespace
}  // namespace ingot::cpu
