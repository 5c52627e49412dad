#pragma once

#include "base/threads.h"
#include "cpu/kv_layout.h"
#include "cpu/simd/tier.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

// The kernels of a tier for a cache; a tier without its own has those of the tier below. `exact`:
// in f32 throughout, whatever shorter arithmetic the tier has.
const AttentionKernels& attention_kernels(Tier tier, KvStore store, bool exact);

// What does not change between runs.
struct AttentionSpec {
  KvLayout kv;
  std::int64_t heads = 0;
  double scale = 0;
  double softcap = 0;
  std::int64_t window = 0;
  std::int64_t sinks = 0;  // first tokens of a sequence, seen though the window has passed them
  std::int64_t max_tokens = 0;     // of a step
  std::int64_t max_sequences = 0;  // of a step
  std::int64_t max_context = 0;    // tokens of a sequence
  bool exact = false;              // attention_kernels
};

struct AttentionCall {
  const float* q = nullptr;                   // [tokens, heads * dim]
  float* out = nullptr;                       // the same
  const std::int32_t* query_start = nullptr;  // [sequences + 1]
  const std::int32_t* context_len = nullptr;  // [sequences]
  const std::int32_t* block_table = nullptr;  // [sequences, table_width]
  std::int64_t table_width = 0;
  std::int64_t sequences = 0;
  const std::byte* pages = nullptr;
  std::byte* workspace = nullptr;  // workspace_bytes(), aligned to 64
};

// Attention of a step with any mix of prefill chunks and decodes. A row's bits depend on nothing
// but its query, its keys and the spec: not on the other rows, the threads or where pages lie.
class Attention {
 public:
  Attention(const AttentionSpec& spec, ThreadPool& pool, Tier tier);
  std::size_t workspace_bytes() const;
  // Allocates nothing.
  void run(const AttentionCall& call);

 private:
  struct Work;
  void plan(const AttentionCall& call, Work& work) const;
  void run_item(const AttentionCall& call, const Work& work, std::int64_t index, int thread) const;
  std::int64_t window_start(std::int64_t position) const;
  void merge_items(const AttentionCall& call, const Work& work, int thread) const;

  AttentionSpec spec_;
  ThreadPool& pool_;
  const AttentionKernels& kernels_;
  void (*merge_)(const MergeItem& item);
  std::int64_t group_;         // query heads per kv head
  std::int64_t block_tokens_;  // query tokens of an item
  std::int64_t range_;         // keys of a range
  std::int64_t split_rows_;    // rows (tokens * heads) of the largest step cut by ranges
  bool has_sinks_;             // they are one more part of a row's keys, before all ranges
  std::int64_t max_parts_;
  alignas(64) std::atomic<std::int64_t> next_{0};
};

}  // namespace ingot::cpu
