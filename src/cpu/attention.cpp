#include "cpu/attention.h"

#include "base/check.h"

#include <algorithm>
#include <cmath>

namespace ingot::cpu {

namespace {

constexpr double kLog2OfE = 1.4426950408889634;
constexpr std::int64_t kMinRange = 256;
constexpr std::int64_t kMostRanges = 64;
constexpr std::int64_t kItemsPerThread = 4;
constexpr std::int64_t kInlineWork = 1 << 15;  // multiply-adds that no other thread is woken for

std::int64_t round_up(std::int64_t x, std::int64_t to) {
  return (x + to - 1) / to * to;
}

// Of one sequence: what its position in the packed step and in its own context is.
struct Sequence {
  std::int64_t first_row;
  std::int64_t tokens;
  std::int64_t position;  // of the first token
};

Sequence sequence_of(const AttentionCall& call, std::int64_t s) {
  const std::int64_t first = call.query_start[s];
  const std::int64_t tokens = call.query_start[s + 1] - first;
  return {first, tokens, call.context_len[s] - tokens};
}

}  // namespace

namespace {

// What a tier and those above it share.
const AttentionTier& attention_tier(Tier tier) {
#if defined(__x86_64__)
  if (tier >= Tier::kAvx512) return kAttentionAvx512;
  if (tier >= Tier::kAvx2) return kAttentionAvx2;
#endif
  (void)tier;
  return kAttentionGeneric;
}

}  // namespace

const AttentionKernels& attention_kernels(Tier tier, KvStore store, bool exact) {
  const AttentionTier& shared = attention_tier(tier);
  const AttentionKernels& f32 = shared.f32[static_cast<std::size_t>(store)];
  if (exact) return f32;
#if defined(__x86_64__)
  if (tier >= Tier::kAvx512Bf16 && store == KvStore::kBf16) return kAttentionBf16Avx512Bf16;
  if (tier >= Tier::kAvx512Bf16 && store == KvStore::kE4m3) return kAttentionE4m3Avx512Bf16;
  if (tier >= Tier::kAvx512Vnni && store == KvStore::kInt8) return kAttentionInt8Avx512Vnni;
#endif
  return store == KvStore::kInt8 ? shared.int8 : f32;
}

// A step's items: for each sequence, its blocks of query tokens, last first (they see the most
// keys), each once a kv head. With `split`, ranges of keys are items of their own.
struct Attention::Work {
  std::int64_t* first_item;  // [sequences + 1]
  float* scratch;            // [threads]
  float* partial;            // [parts][rows]
  std::int64_t scratch_floats;
  std::int64_t items;
  std::int64_t tokens;
  bool split;
};

Attention::Attention(const AttentionSpec& spec, ThreadPool& pool, Tier tier)
    : spec_(spec),
      pool_(pool),
      kernels_(attention_kernels(tier, spec.kv.store, spec.exact)),
      merge_(attention_tier(tier).merge),
      has_sinks_(spec.window > 0 && spec.sinks > 0) {
  check(spec.heads % spec.kv.kv_heads == 0, "query heads share kv heads evenly");
  group_ = spec.heads / spec.kv.kv_heads;
  const std::int64_t most = max_item_rows(spec.kv.dim);
  check(group_ <= most, "query heads of a kv head fit an item");
  block_tokens_ = std::max<std::int64_t>(1, most / group_);
  // One size for all that a model does, so that partial sums never depend on the step.
  range_ =
      std::max(kMinRange, round_up((spec.max_context + kMostRanges - 1) / kMostRanges, kKeyBlock));
  max_parts_ = (spec.max_context + range_ - 1) / range_ + 1 + has_sinks_;
  const std::int64_t some = std::max<std::int64_t>(4 * spec.heads, 32 * pool.size());
  split_rows_ = std::min(spec.max_tokens * spec.heads, some);
}

std::size_t Attention::workspace_bytes() const {
  const std::int64_t dim = spec_.kv.dim;
  const std::int64_t books = round_up((spec_.max_sequences + 1) * 8, 64);
  const std::int64_t scratch = pool_.size() * round_up(attention_scratch_floats(dim), 16) * 4;
  const std::int64_t partial =
      pool_.size() == 1 ? 0 : split_rows_ * max_parts_ * partial_floats(dim) * 4;
  return static_cast<std::size_t>(books + scratch + partial);
}

void Attention::plan(const AttentionCall& call, Work& work) const {
  const std::int64_t threads = pool_.size();
  work.first_item = reinterpret_cast<std::int64_t*>(call.workspace);
  work.scratch =
      reinterpret_cast<float*>(call.workspace + round_up((spec_.max_sequences + 1) * 8, 64));
  work.scratch_floats = round_up(attention_scratch_floats(spec_.kv.dim), 16);
  work.partial = work.scratch + threads * work.scratch_floats;
  work.tokens = call.query_start[call.sequences];
  std::int64_t blocks = 0;
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s < call.sequences; ++s) {
    const Sequence seq = sequence_of(call, s);
    check(seq.tokens >= 0 && seq.position >= 0, "a sequence's queries are part of its context");
    check(call.context_len[s] <= call.table_width * spec_.kv.page_tokens,
          "a sequence's pages are in its row of the block table");
    work.first_item[s] = blocks;
    blocks += (seq.tokens + block_tokens_ - 1) / block_tokens_;
    if (seq.tokens > 0) longest = std::max<std::int64_t>(longest, call.context_len[s]);
  }
  work.first_item[call.sequences] = blocks;
  work.items = blocks * spec_.kv.kv_heads;
  const std::int64_t parts = (longest + range_ - 1) / range_ + has_sinks_;
  work.split = threads > 1 && parts > 1 + has_sinks_ && work.items < kItemsPerThread * threads &&
               work.tokens * spec_.heads <= split_rows_ && parts <= max_parts_;
  if (work.split) work.items *= parts;
}

// The first token in the window of the one at `position`.
std::int64_t Attention::window_start(std::int64_t position) const {
  return spec_.window > 0 ? std::max<std::int64_t>(0, position - spec_.window + 1) : 0;
}

// Item `index` of [kv head fastest][block][part slowest].
void Attention::run_item(const AttentionCall& call, const Work& work, std::int64_t index,
                         int thread) const {
  const std::int64_t kv_heads = spec_.kv.kv_heads;
  const std::int64_t dim = spec_.kv.dim;
  const std::int64_t blocks = work.first_item[call.sequences];
  const std::int64_t head = index % kv_heads;
  const std::int64_t block = index / kv_heads % blocks;
  const std::int64_t index_of_part = index / kv_heads / blocks;
  const std::int64_t s =
      std::upper_bound(work.first_item, work.first_item + call.sequences + 1, block) -
      work.first_item - 1;
  const Sequence seq = sequence_of(call, s);
  const std::int64_t token = (work.first_item[s + 1] - 1 - block) * block_tokens_;
  const std::int64_t tokens = std::min(block_tokens_, seq.tokens - token);
  const std::int64_t position = seq.position + token;
  bool with_sinks = has_sinks_;
  std::int64_t first_range = window_start(position) / range_;
  std::int64_t end_range = (position + tokens - 1) / range_ + 1;
  if (work.split) {
    first_range += index_of_part - has_sinks_;
    if (first_range >= end_range) return;
    with_sinks = has_sinks_ && index_of_part == 0;
    end_range = first_range + 1;
    if (with_sinks) first_range = end_range = 0;
  }
  const std::int64_t row = seq.first_row + token;
  const double cap = spec_.softcap;
  const std::int64_t part = partial_floats(dim);
  const AttentionItem item{
      .kv = {.pages = reinterpret_cast<const std::uint8_t*>(call.pages),
             .table = call.block_table + s * call.table_width,
             .page_bytes = spec_.kv.page_bytes(),
             .page_tokens = spec_.kv.page_tokens,
             .k_offset = spec_.kv.k_offset(head),
             .v_offset = spec_.kv.v_offset(head),
             .scale_offset = spec_.kv.scale_offset(head),
             .store = spec_.kv.store},
      .dim = static_cast<int>(dim),
      .group = static_cast<int>(group_),
      .q_scale = static_cast<float>(spec_.scale * (cap != 0 ? 1 / cap : kLog2OfE)),
      .softcap = static_cast<float>(cap * kLog2OfE),
      .window = spec_.window,
      .sinks = has_sinks_ ? spec_.sinks : 0,
      .range = range_,
      .q = call.q + (row * spec_.heads + head * group_) * dim,
      .q_stride = spec_.heads * dim,
      .tokens = static_cast<int>(tokens),
      .position = position,
      .with_sinks = with_sinks,
      .first_range = first_range,
      .end_range = end_range,
      .out = call.out + (row * spec_.heads + head * group_) * dim,
      .out_stride = spec_.heads * dim,
      .partial = work.split ? work.partial + (index_of_part * work.tokens * spec_.heads +
                                              (head * work.tokens + row) * group_) *
                                                 part
                            : nullptr,
      .scratch = work.scratch + thread * work.scratch_floats};
  const bool direct = tokens == 1 && group_ <= kDirectRows && spec_.kv.page_tokens % kKeyBlock == 0;
  direct ? kernels_.direct(item) : kernels_.tiled(item);
}

void Attention::merge_items(const AttentionCall& call, const Work& work, int thread) const {
  const std::int64_t dim = spec_.kv.dim;
  const std::int64_t part = partial_floats(dim);
  std::int64_t s = 0;
  const auto [begin, end] = static_split(work.tokens * spec_.heads, pool_.size(), thread);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t token = i / spec_.heads;
    const std::int64_t head = i % spec_.heads;
    while (token >= call.query_start[s + 1]) ++s;
    const Sequence seq = sequence_of(call, s);
    const std::int64_t first = (token - seq.first_row) / block_tokens_ * block_tokens_;
    const std::int64_t last = std::min(first + block_tokens_, seq.tokens) - 1 + seq.position;
    const std::int64_t start = first + seq.position;
    const std::int64_t row = (head / group_ * work.tokens + token) * group_ + head % group_;
    merge_({.dim = static_cast<int>(dim),
            .parts = last / range_ + 1 - window_start(start) / range_ + has_sinks_,
            .partial = work.partial + row * part,
            .partial_stride = work.tokens * spec_.heads * part,
            .out = call.out + i * dim});
  }
}

void Attention::run(const AttentionCall& call) {
  Work work{};
  plan(call, work);
  if (work.items == 0) return;
  std::int64_t keys = 0;
  for (std::int64_t s = 0; s < call.sequences; ++s)
    keys += (call.query_start[s + 1] - call.query_start[s]) * call.context_len[s];
  if (keys * spec_.heads * spec_.kv.dim < kInlineWork || pool_.size() == 1) {
    work.items = work.split ? work.first_item[call.sequences] * spec_.kv.kv_heads : work.items;
    work.split = false;
    for (std::int64_t i = 0; i < work.items; ++i) run_item(call, work, i, 0);
    return;
  }
  next_.store(0, std::memory_order_relaxed);
  pool_.run([&](int thread) {
    for (;;) {
      const std::int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= work.items) break;
      run_item(call, work, i, thread);
    }
    if (!work.split) return;
    pool_.barrier();
    merge_items(call, work, thread);
  });
}

}  // namespace ingot::cpu
