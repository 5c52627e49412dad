#include "cuda/device/attention_params.cuh"

namespace ingot::cuda {

// One block a row and head.
constexpr Launch attention_launch(long long rows, long long heads) {
  return {.grid_x = static_cast<unsigned>(rows),
          .grid_y = static_cast<unsigned>(heads),
          .block = kAttentionThreads};
}

// On tensor cores: a block a row, split and slice of the heads that share a KV head.
constexpr long long attention_slices(long long heads, long long kv_heads) {
  return kv_heads * ((heads / kv_heads + kSliceHeads - 1) / kSliceHeads);
}
constexpr long long attention_partial_bytes(long long rows, long long heads, long long head_dim,
                                            long long splits) {
  return rows * heads * splits * (head_dim + 2) * 4;
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: HEADS, KV_HEADS, HEAD_DIM (a multiple of 8 up to 256), PAGE_TOKENS, WINDOW, SINKS,
// SOFTCAP, X_TYPE, KV_TYPE, OUT_TYPE, TENSOR_CORES (X_TYPE and OUT_TYPE bf16, KV_TYPE bf16 or of 8
// bits, HEAD_DIM a multiple of 32, PAGE_TOKENS of 16, no SINKS).
#if TENSOR_CORES
#include "cuda/device/attention_splits.cuh"
#include "cuda/device/ring.cuh"

namespace ingot::cuda {

struct AttentionShape {
  static constexpr int kHeads = HEADS;
  static constexpr int kKvHeads = KV_HEADS;
  static constexpr int kHeadDim = HEAD_DIM;
  static constexpr int kPageTokens = PAGE_TOKENS;
  static constexpr int kWindow = WINDOW;
  static constexpr bool kSoftcap = SOFTCAP;
  using Kv = KV_TYPE;
  using Out = OUT_TYPE;
};

// On a multiprocessor: as many as registers allow without spills.
constexpr int kAttentionBlocks = HEAD_DIM <= 96 ? 4 : HEAD_DIM <= 128 ? 3 : 2;

extern "C" __global__ void __launch_bounds__(kAttentionThreads, kAttentionBlocks)
    attention(const __grid_constant__ AttentionParams p) {
  using Attention = SplitAttention<AttentionShape>;
  allow_next_kernel();
  __shared__ Attention::Shared shared;
  if (p.merges) {
    const int head = blockIdx.y;
    const int slice =
        head / Attention::kGroup * Attention::kSlices + head % Attention::kGroup / kSliceHeads;
    Attention(p, shared, blockIdx.x, slice).merge_splits(head);
    return;
  }
  Attention block(p, shared, blockIdx.x / p.splits, blockIdx.y);
  if (p.splits > 1)
    block.attend_to(blockIdx.x % p.splits);
  else
    block.attend_to_all();
}

}  // namespace ingot::cuda
#else
#include "cuda/device/kv_page.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/device/sequence.cuh"

namespace ingot::cuda {

using Page = KvPage<KV_HEADS, HEAD_DIM, PAGE_TOKENS, KV_TYPE>;

// Online softmax over blocks of 128 positions that start at multiples of 128: those of the first
// SINKS positions, then those of the window. Thread i scores position i of the block; then each
// thread adds two dimensions of V over every kGroups-th position, and the groups are added at the
// end. The order depends on the row's position alone.
// One block at least, or ptxas spills a value here and there for one block more.
extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)
    attention(const __grid_constant__ AttentionParams p) {
  constexpr int kColumns = HEAD_DIM / 2;  // threads that share the dimensions of V
  constexpr int kGroups = kAttentionThreads / kColumns;
  __shared__ __align__(16) float q[HEAD_DIM];
  __shared__ float weights[kAttentionThreads];
  __shared__ i64 rows[kAttentionThreads];  // of K, in values
  __shared__ float scratch[kAttentionThreads / 32];
  __shared__ float2 partial[kGroups * kColumns];

  allow_next_kernel();
  const int row = blockIdx.x;
  const int head = blockIdx.y;
  const int kv_head = head / (HEADS / KV_HEADS);
  const int thread = threadIdx.x;
  const KV_TYPE* pages = static_cast<const KV_TYPE*>(p.pages);
  const i64 out_base = (static_cast<i64>(row) * HEADS + head) * HEAD_DIM;
  const int sequence = sequence_of(p.query_start, p.sequences, row);
  const int position = p.context_len[sequence] - p.query_start[sequence + 1] + row;
  const int* table = p.block_table + static_cast<i64>(sequence) * p.table_width;
  for (int d = thread; d < HEAD_DIM; d += kAttentionThreads)
    q[d] = to_float(static_cast<const X_TYPE*>(p.q)[out_base + d]);
  __syncthreads();

  const int oldest = WINDOW > 0 ? max(0, position - WINDOW + 1) : 0;
  const int group = thread / kColumns;
  const int column = thread % kColumns;
  float largest = minus_infinity();
  float denominator = 0;
  float2 sum = {0, 0};
  const auto add_value = [&](int i) {
    const KV_TYPE* v = pages + rows[i] + Page::kVOffset + 2 * column;
    sum.x = fmaf(weights[i], to_float(v[0]), sum.x);
    sum.y = fmaf(weights[i], to_float(v[1]), sum.y);
  };
  const int window_begin = oldest / kAttentionThreads * kAttentionThreads;
  for (int begin = SINKS > 0 ? 0 : window_begin; begin <= position; begin += kAttentionThreads) {
    if (SINKS > 0 && begin >= SINKS) begin = max(begin, window_begin);
    const int at = begin + thread;
    const bool visible = (at >= oldest || at < SINKS) && at <= position;
    float score = minus_infinity();
    float v_scale = 1;
    if (visible) {
      const int page = table[at / PAGE_TOKENS];
      const i64 k_row = Page::row(page, kv_head, at % PAGE_TOKENS);
      rows[thread] = k_row;
      score = 0;
#pragma unroll
      for (int d = 0; d < HEAD_DIM; d += 8) {
        float k[8];
        load8(pages + k_row + d, k);
#pragma unroll
        for (int i = 0; i < 8; ++i) score = fmaf(q[d + i], k[i], score);
      }
      score *= p.scale;
      if constexpr (Page::kScaled) {
        score *= Page::scale(p.pages, page, kv_head, at % PAGE_TOKENS, false);
        v_scale = Page::scale(p.pages, page, kv_head, at % PAGE_TOKENS, true);
      }
      if (SOFTCAP) score = p.softcap * tanhf(score / p.softcap);
    }
    // Every block holds a visible position, so the maximum is finite.
    const float now = fmaxf(largest, block_max<kAttentionThreads>(score, scratch));
    const float weight = visible ? expf(score - now) : 0.0f;
    const float keep = expf(largest - now);
    weights[thread] = weight * v_scale;
    denominator = denominator * keep + block_sum<kAttentionThreads>(weight, scratch);
    largest = now;
    sum.x *= keep;
    sum.y *= keep;
    if (group < kGroups) {
      const int last = min(kAttentionThreads - 1, position - begin);
      int first = max(0, oldest - begin);
      // Those of this group that are visible.
      if constexpr (SINKS > 0) {
        const int end = min(last + 1, SINKS - begin);
        for (int i = group; i < end; i += kGroups) add_value(i);
        first = max(first, end);
      }
      for (int i = first + (group - first % kGroups + kGroups) % kGroups; i <= last; i += kGroups)
        add_value(i);
    }
    __syncthreads();  // weights and rows are written again
  }

  if (group < kGroups) partial[group * kColumns + column] = sum;
  __syncthreads();
  if (group > 0) return;
  float2 total = partial[column];
#pragma unroll
  for (int g = 1; g < kGroups; ++g) {
    total.x += partial[g * kColumns + column].x;
    total.y += partial[g * kColumns + column].y;
  }
  OUT_TYPE* out = static_cast<OUT_TYPE*>(p.out) + out_base + 2 * column;
  out[0] = from_float<OUT_TYPE>(total.x / denominator);
  out[1] = from_float<OUT_TYPE>(total.y / denominator);
}

}  // namespace ingot::cuda
#endif
#endif
