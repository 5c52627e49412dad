#pragma once

// Attention over KV pages, one work item at a time, in the arithmetic of one instruction tier. No
// std:: templates here: compiled with tier-specific flags (see packed_format.h). cpu/attention.cpp
// cuts a step into items.
//
// One order for every query row, however it is run: keys in blocks of 64 aligned to absolute
// positions, each logit one chain over the head dimension, one online softmax over the blocks of a
// range, ranges (of `range` tokens, aligned too) merged in ascending order.
#include <stdint.h>

namespace ingot::cpu {

inline constexpr int kKeyBlock = 64;   // keys between two looks at a row's maximum
inline constexpr int kKeyGroup = 16;   // tokens whose K lie side by side in a page
inline constexpr int kTileRows = 6;    // query rows of a register tile
inline constexpr int kDirectRows = 8;  // most rows of attend_direct
inline constexpr int kMaxHeadDim = 512;

// How a cache keeps numbers. In 8 bit the K and the V of a token and kv head have a scale each
// (ops/reference/kv_row.h).
enum class KvStore : uint8_t { kF32, kBf16, kInt8, kE4m3 };
inline constexpr int kKvStores = 4;

constexpr bool has_scales(KvStore store) {
  return store == KvStore::kInt8 || store == KvStore::kE4m3;
}
constexpr int64_t value_bytes(KvStore store) {
  return has_scales(store) ? 1 : store == KvStore::kBf16 ? 2 : 4;
}
// Values of one token's K beside each other.
constexpr int64_t key_unit(KvStore store) {
  return store == KvStore::kF32 ? 1 : 2;
}

// A page holds, for each kv head, K [page_tokens / 16][ceil(dim / unit)][16 tokens][unit], unit
// being key_unit (16 logits are then one vector, without horizontal sums), then V, in 16 bit and
// more [page_tokens][dim], in 8 bit [page_tokens / 2][dim][2 tokens]. In 8 bit the scales follow,
// of K [page_tokens], then of V.
struct KvPages {
  const uint8_t* pages;  // the layer's first page
  const int32_t* table;  // pages of this sequence, by token / page_tokens
  int64_t page_bytes;
  int64_t page_tokens;  // a multiple of 16
  int64_t k_offset;     // bytes from a page's start to K, V and scales of this kv head
  int64_t v_offset;
  int64_t scale_offset;
  KvStore store;
};

// Query rows of one sequence that share a kv head: row r is token r / group, head r % group.
struct AttentionItem {
  KvPages kv;
  int dim;         // head dimension
  int group;       // query heads per kv head
  float q_scale;   // on q, log2(e) included; with a softcap 1 / softcap instead
  float softcap;   // times log2(e); 0: none
  int64_t window;  // keys seen, the own included; 0: all
  int64_t sinks;   // keys at the start, seen though the window has passed them
  int64_t range;   // keys of a range, a multiple of 64
  const float* q;  // [tokens][group][dim], tokens q_stride apart
  int64_t q_stride;
  int tokens;
  int64_t position;     // of the first token
  bool with_sinks;      // parts of this item, one with `partial`, else the whole context: the keys
  int64_t first_range;  // of sinks that a window has passed, and ranges
  int64_t end_range;
  float* out;  // as q; unused with `partial`
  int64_t out_stride;
  float* partial;  // [rows][partial_floats(dim)] instead of out, or null
  float* scratch;  // attention_scratch_floats, aligned to 64 bytes
};

// Partials of one row, in ascending order, to its result.
struct MergeItem {
  int dim;
  int64_t parts;
  const float* partial;
  int64_t partial_stride;  // floats between parts
  float* out;
};

constexpr int64_t padded_dim(int64_t dim) {
  return (dim + 15) / 16 * 16;
}
// Maximum and sum, then the unnormalised output.
constexpr int64_t partial_floats(int64_t dim) {
  return 16 + padded_dim(dim);
}
// Rows of an item with the scratch that fits half of a small L2.
constexpr int max_item_rows(int64_t dim) {
  return dim > 128 ? 48 : 96;
}
constexpr int64_t attention_scratch_floats(int64_t dim) {
  // q, o and the merged o, 64 p, two rows of states; K, V and scales of a block
  return max_item_rows(dim) * (3 * padded_dim(dim) + kKeyBlock + 64) +
         2 * kKeyBlock * padded_dim(dim) + 2 * kKeyBlock;
}

struct AttentionKernels {
  // One token, at most kDirectRows rows, page_tokens a multiple of 64: straight from the pages.
  void (*direct)(const AttentionItem& item);
  // Up to max_item_rows rows: key blocks are widened once for all of them.
  void (*tiled)(const AttentionItem& item);
};

struct AttentionTier {
  AttentionKernels f32[kKvStores];  // in f32 throughout, by KvStore
  AttentionKernels int8;            // by products of 16-bit integers (attention_int8.h)
  void (*merge)(const MergeItem& item);
};

extern const AttentionTier kAttentionGeneric;
#if defined(__x86_64__)
extern const AttentionTier kAttentionAvx2;
extern const AttentionTier kAttentionAvx512;
extern const AttentionKernels kAttentionInt8Avx512Vnni;
// By products of bf16 (attention_bf16.h).
extern const AttentionKernels kAttentionBf16Avx512Bf16;
extern const AttentionKernels kAttentionE4m3Avx512Bf16;
#endif

}  // namespace ingot::cpu
