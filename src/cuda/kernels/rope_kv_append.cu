#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct RopeKvAppendParams {
  const void* qkv;        // [rows, (HEADS + 2 * KV_HEADS) * HEAD_DIM]
  const int* positions;   // [rows]
  const float* inv_freq;  // [*, ROTARY_DIM / 2]
  const int* rope_row;    // [rows]: which row of inv_freq a token uses
  const int* slots;       // [rows]: page * PAGE_TOKENS + offset
  void* pages;            // KvPage
  void* q;                // [rows, HEADS * HEAD_DIM]
  float scale;            // on cos and sin
};

// One block a row.
constexpr Launch rope_kv_append_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = 128};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: HEADS, KV_HEADS, HEAD_DIM, ROTARY_DIM, INTERLEAVED, PAGE_TOKENS, X_TYPE, KV_TYPE.
#include "cuda/device/kv_page.cuh"
#include "cuda/device/rotation.cuh"

namespace ingot::cuda {

using Page = KvPage<KV_HEADS, HEAD_DIM, PAGE_TOKENS>;

// Where value d of a head goes: q's result, or the page for the heads after them. Stores there are
// rounded to X_TYPE first, as by rope and kv_append one after the other.
struct Destination {
  X_TYPE* q;
  KV_TYPE* k;  // of kv head 0
  __device__ void store(int head, int d, float value) const {
    if (head < HEADS)
      q[head * HEAD_DIM + d] = from_float<X_TYPE>(value);
    else
      k[(head - HEADS) * PAGE_TOKENS * HEAD_DIM + d] = from_float<KV_TYPE>(rounded<X_TYPE>(value));
  }
};

extern "C" __global__ void rope_kv_append(const __grid_constant__ RopeKvAppendParams p) {
  constexpr int kPairs = ROTARY_DIM / 2;
  constexpr int kRest = HEAD_DIM - ROTARY_DIM;
  constexpr int kTurned = HEADS + KV_HEADS;
  const i64 token = blockIdx.x;
  const X_TYPE* x = static_cast<const X_TYPE*>(p.qkv) + token * (HEADS + 2 * KV_HEADS) * HEAD_DIM;
  const int position = p.positions[token];
  const float* inv_freq = p.inv_freq + static_cast<i64>(p.rope_row[token]) * kPairs;
  const int slot = p.slots[token];
  KV_TYPE* page =
      static_cast<KV_TYPE*>(p.pages) + Page::row(slot / PAGE_TOKENS, 0, slot % PAGE_TOKENS);
  const Destination to{static_cast<X_TYPE*>(p.q) + token * HEADS * HEAD_DIM, page};

  for (int i = threadIdx.x; i < kTurned * kPairs; i += 128) {
    const int pair = i % kPairs;
    const int head = i / kPairs;
    const int first = INTERLEAVED ? 2 * pair : pair;
    const int second = first + (INTERLEAVED ? 1 : kPairs);
    float a = to_float(x[head * HEAD_DIM + first]);
    float b = to_float(x[head * HEAD_DIM + second]);
    rotate(a, b, position, inv_freq[pair], p.scale);
    to.store(head, first, a);
    to.store(head, second, b);
  }
  if constexpr (kRest > 0)
    for (int i = threadIdx.x; i < kTurned * kRest; i += 128) {
      const int head = i / kRest;
      const int d = ROTARY_DIM + i % kRest;
      to.store(head, d, to_float(x[head * HEAD_DIM + d]));
    }
  const X_TYPE* v = x + kTurned * HEAD_DIM;
  for (int i = threadIdx.x; i < KV_HEADS * HEAD_DIM; i += 128)
    page[Page::kVOffset + i / HEAD_DIM * PAGE_TOKENS * HEAD_DIM + i % HEAD_DIM] =
        from_float<KV_TYPE>(to_float(v[i]));
}

}  // namespace ingot::cuda
#endif
