#pragma once

// Rows of queries on their way through the keys: what attention_direct.h and attention_tiled.h
// share. Over the vectors of the vec_*.h included before; see attention.h.
#include "cpu/simd/attention.h"
#include "cpu/simd/vec_math.h"

namespace ingot::cpu {
namespace {

constexpr float kMasked = -1e30f;  // finite: minus itself it is no NaN
constexpr int kVecsOfBlock = kKeyBlock / kLanes;
constexpr int kVecsOfGroup = kKeyGroup / kLanes;
constexpr int kTileVecs = kAccumulators / kTileRows;

inline int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
inline int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// The online softmax of one row.
struct RowState {
  float top;
  float pad[15];
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

inline Seen seen_keys(const AttentionItem& item, int64_t position, int64_t block) {
  const int64_t low = item.window > 0 ? at_least(0, position - item.window + 1) : 0;
  return {static_cast<int>(at_least(0, low - block)),
          static_cast<int>(at_most(kKeyBlock, position + 1 - block))};
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

inline TileKeys tile_keys(const AttentionItem& item, int row, int64_t block) {
  return {seen_keys(item, token_of_row(item, row), block),
          seen_keys(item, token_of_row(item, row + kTileRows - 1), block)};
}

// K and V of a key, at the start of a group of 16.
struct BlockAt {
  const uint8_t* k;
  const uint8_t* v;
};

inline BlockAt block_at(const AttentionItem& item, int64_t key) {
  const KvPages& kv = item.kv;
  const uint8_t* page = kv.pages + kv.table[key / kv.page_tokens] * kv.page_bytes;
  const int64_t token = key % kv.page_tokens;
  const int64_t value_bytes = kv.f32 ? 4 : 2;
  const int64_t k_dim = kv.f32 ? item.dim : (item.dim + 1) / 2 * 2;
  return {page + kv.k_offset + token * k_dim * value_bytes,
          page + kv.v_offset + token * item.dim * value_bytes};
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

inline float largest(Seen groups, const float* p) {
  Vec top[kVecsOfGroup];
  for (int v = 0; v < kVecsOfGroup; ++v) top[v] = load(p + groups.begin + v * kLanes);
  for (int k = groups.begin + kKeyGroup; k < groups.end; k += kKeyGroup)
    for (int v = 0; v < kVecsOfGroup; ++v) top[v] = max(top[v], load(p + k + v * kLanes));
  float lanes[16];
  for (int v = 0; v < kVecsOfGroup; ++v) store(lanes + v * kLanes, top[v]);
  return max_of_16(lanes);
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

// p [64]: logits of a block in, their exponentials out, relative to the row's running maximum; what
// the row gathered before is rescaled when the maximum grows. Key groups that it sees nothing of
// are left alone: they would add zeros.
inline void soften(const AttentionItem& item, Seen seen, float* p, RowState& s, float* o) {
  const Seen groups{seen.begin / kKeyGroup * kKeyGroup,
                    (seen.end + kKeyGroup - 1) / kKeyGroup * kKeyGroup};
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

inline void copy_scaled(const float* q, int dim, float scale, float* out) {
  const Vec factor = splat(scale);
  int d = 0;
  for (; d + kLanes <= dim; d += kLanes) store(out + d, mul(load(q + d), factor));
  for (; d < dim; ++d) out[d] = q[d] * scale;
}

// The scratch of an item, laid out, and the walk over its ranges.
struct Rows {
  const AttentionItem& item;
  const int count;       // rows computed: whole register tiles in attention_tiled.h
  const int64_t padded;  // floats of a row of q, o, merged
  float* q;              // [count][padded], scaled
  float* o;              // [count][padded], of the range at hand
  float* merged;         // [count][padded], of the ranges before
  float* p;              // [count][64]
  RowState* states;      // [count]
  float* merged_states;  // [count][16]: maximum, sum
  float* k_block;        // [dim][64]
  float* v_block;        // [64][padded]

  Rows(const AttentionItem& i, int n) : item(i), count(n), padded(padded_dim(i.dim)) {
    q = i.scratch;
    o = q + n * padded;
    merged = o + n * padded;
    p = merged + n * padded;
    states = reinterpret_cast<RowState*>(p + n * kKeyBlock);
    merged_states = reinterpret_cast<float*>(states + n);
    k_block = merged_states + n * 16;
    v_block = k_block + kKeyBlock * padded;
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

  // The block of the first key that a row at `position` sees.
  int64_t first_block(int64_t position) const {
    const int64_t low = item.window > 0 ? at_least(0, position - item.window + 1) : 0;
    return low / kKeyBlock * kKeyBlock;
  }

  void start_range() {
    for (int r = 0; r < count; ++r) start_row(states[r]);
    for (int64_t i = 0; i < count * padded; i += kLanes) store(o + i, splat(0.0f));
  }

  void end_range(int64_t range) {
    const int real = item.tokens * item.group;
    for (int r = 0; r < real; ++r) {
      const Gathered next{states[r].top, sum_of_16(states[r].sums), o + r * padded};
      if (item.partial) {
        float* part = item.partial + (range - item.first_range) * item.partial_stride +
                      r * partial_floats(item.dim);
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
