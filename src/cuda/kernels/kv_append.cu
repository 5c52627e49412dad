#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct KvAppendParams {
  const void* k;     // [rows, KV_HEADS * HEAD_DIM]
  const void* v;     // [rows, KV_HEADS * HEAD_DIM]
  const int* slots;  // [rows]: page * PAGE_TOKENS + offset
  void* pages;       // KvPage
};

// One block a row.
constexpr Launch kv_append_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = 128};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: KV_HEADS, HEAD_DIM, PAGE_TOKENS, X_TYPE, KV_TYPE.
#include "cuda/device/kv_page.cuh"

namespace ingot::cuda {

extern "C" __global__ void kv_append(const __grid_constant__ KvAppendParams p) {
  using Page = KvPage<KV_HEADS, HEAD_DIM, PAGE_TOKENS>;
  const i64 base = static_cast<i64>(blockIdx.x) * KV_HEADS * HEAD_DIM;
  const X_TYPE* k = static_cast<const X_TYPE*>(p.k) + base;
  const X_TYPE* v = static_cast<const X_TYPE*>(p.v) + base;
  const int slot = p.slots[blockIdx.x];
  for (int i = threadIdx.x; i < KV_HEADS * HEAD_DIM; i += 128) {
    KV_TYPE* at = static_cast<KV_TYPE*>(p.pages) +
                  Page::row(slot / PAGE_TOKENS, i / HEAD_DIM, slot % PAGE_TOKENS) + i % HEAD_DIM;
    at[0] = from_float<KV_TYPE>(to_float(k[i]));
    at[Page::kVOffset] = from_float<KV_TYPE>(to_float(v[i]));
  }
}

}  // namespace ingot::cuda
#endif
