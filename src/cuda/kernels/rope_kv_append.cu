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

// One block a row; in 8 bit a warp of it a kv head.
constexpr Launch rope_kv_append_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = 128};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: HEADS, KV_HEADS, HEAD_DIM, ROTARY_DIM, INTERLEAVED, PAGE_TOKENS, X_TYPE, KV_TYPE.
#include "cuda/device/kv_page.cuh"
#include "cuda/device/rotation.cuh"

namespace ingot::cuda {

using Page = KvPage<KV_HEADS, HEAD_DIM, PAGE_TOKENS, KV_TYPE>;

constexpr int kPairs = ROTARY_DIM / 2;
constexpr int kRest = HEAD_DIM - ROTARY_DIM;

// The token's heads [first, last) rotated by `threads` threads, of which this is number `thread`;
// store(head, d, value) gets every value once.
template <typename Store>
__device__ void rotate_heads(const RopeKvAppendParams& p, const X_TYPE* x, int first, int last,
                             int thread, int threads, Store store) {
  const i64 token = blockIdx.x;
  const int position = p.positions[token];
  const float* inv_freq = p.inv_freq + static_cast<i64>(p.rope_row[token]) * kPairs;
  for (int i = thread; i < (last - first) * kPairs; i += threads) {
    const int pair = i % kPairs;
    const int head = first + i / kPairs;
    const int even = INTERLEAVED ? 2 * pair : pair;
    const int odd = even + (INTERLEAVED ? 1 : kPairs);
    float a = to_float(x[head * HEAD_DIM + even]);
    float b = to_float(x[head * HEAD_DIM + odd]);
    rotate(a, b, position, inv_freq[pair], p.scale);
    store(head, even, a);
    store(head, odd, b);
  }
  if constexpr (kRest > 0)
    for (int i = thread; i < (last - first) * kRest; i += threads) {
      const int head = first + i / kRest;
      const int d = ROTARY_DIM + i % kRest;
      store(head, d, to_float(x[head * HEAD_DIM + d]));
    }
}

// K is rounded to X_TYPE before it is stored, as by rope and kv_append one after the other.
extern "C" __global__ void rope_kv_append(const __grid_constant__ RopeKvAppendParams p) {
  const i64 token = blockIdx.x;
  const X_TYPE* x = static_cast<const X_TYPE*>(p.qkv) + token * (HEADS + 2 * KV_HEADS) * HEAD_DIM;
  const X_TYPE* v = x + (HEADS + KV_HEADS) * HEAD_DIM;
  X_TYPE* q = static_cast<X_TYPE*>(p.q) + token * HEADS * HEAD_DIM;
  const int slot = p.slots[token];
  const int page = slot / PAGE_TOKENS;
  KV_TYPE* to = static_cast<KV_TYPE*>(p.pages) + Page::row(page, 0, slot % PAGE_TOKENS);
  constexpr int kHead = PAGE_TOKENS * HEAD_DIM;  // from a kv head's row to the next one's

  const auto store_q = [&](int head, int d, float value) {
    q[head * HEAD_DIM + d] = from_float<X_TYPE>(value);
  };
  if constexpr (Page::kScaled) {
    __shared__ float turned[4][HEAD_DIM];
    rotate_heads(p, x, 0, HEADS, threadIdx.x, 128, store_q);
    float* k = turned[threadIdx.x / 32];
    for (int head = threadIdx.x / 32; head < KV_HEADS; head += 4) {
      rotate_heads(p, x, HEADS + head, HEADS + head + 1, threadIdx.x % 32, 32,
                   [&](int, int d, float value) { k[d] = rounded<X_TYPE>(value); });
      __syncwarp();
      float* scale = Page::scale(p.pages, page, head, slot % PAGE_TOKENS);
      store_kv_row<HEAD_DIM>([&](int d) { return k[d]; }, to + head * kHead, scale);
      store_kv_row<HEAD_DIM>([&](int d) { return to_float(v[head * HEAD_DIM + d]); },
                             to + Page::kVOffset + head * kHead, scale + Page::kVScaleOffset);
      __syncwarp();
    }
  } else {
    rotate_heads(p, x, 0, HEADS + KV_HEADS, threadIdx.x, 128, [&](int head, int d, float value) {
      if (head < HEADS)
        store_q(head, d, value);
      else
        to[(head - HEADS) * kHead + d] = from_float<KV_TYPE>(rounded<X_TYPE>(value));
    });
    for (int i = threadIdx.x; i < KV_HEADS * HEAD_DIM; i += 128)
      to[Page::kVOffset + i / HEAD_DIM * kHead + i % HEAD_DIM] =
          from_float<KV_TYPE>(to_float(v[i]));
  }
}

}  // namespace ingot::cuda
#endif
