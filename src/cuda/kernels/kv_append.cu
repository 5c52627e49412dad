#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct KvAppendParams {
  const void* k;     // [rows, KV_HEADS * HEAD_DIM]
  const void* v;     // [rows, KV_HEADS * HEAD_DIM]
  const int* slots;  // [rows]: page * PAGE_TOKENS + offset
  void* pages;       // KvPage
};

// One block a row; in 8 bit a warp of it a head.
constexpr Launch kv_append_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = 128};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: KV_HEADS, HEAD_DIM, PAGE_TOKENS, X_TYPE, KV_TYPE.
#include "cuda/device/kv_page.cuh"

namespace ingot::cuda {

extern "C" __global__ void kv_append(const __grid_constant__ KvAppendParams p) {
  using Page = KvPage<KV_HEADS, HEAD_DIM, PAGE_TOKENS, KV_TYPE>;
  const i64 base = static_cast<i64>(blockIdx.x) * KV_HEADS * HEAD_DIM;
  const X_TYPE* k = static_cast<const X_TYPE*>(p.k) + base;
  const X_TYPE* v = static_cast<const X_TYPE*>(p.v) + base;
  const int slot = p.slots[blockIdx.x];
  const int page = slot / PAGE_TOKENS;
  const int token = slot % PAGE_TOKENS;
  if constexpr (Page::kScaled) {
    for (int head = threadIdx.x / 32; head < KV_HEADS; head += 4) {
      KV_TYPE* to = static_cast<KV_TYPE*>(p.pages) + Page::row(page, head, token);
      float* scale = Page::scale(p.pages, page, head, token);
      const int at = head * HEAD_DIM;
      store_kv_row<HEAD_DIM>([&](int d) { return to_float(k[at + d]); }, to, scale);
      store_kv_row<HEAD_DIM>([&](int d) { return to_float(v[at + d]); }, to + Page::kVOffset,
                             scale + Page::kVScaleOffset);
    }
  } else {
    for (int i = threadIdx.x; i < KV_HEADS * HEAD_DIM; i += 128) {
      KV_TYPE* at =
          static_cast<KV_TYPE*>(p.pages) + Page::row(page, i / HEAD_DIM, token) + i % HEAD_DIM;
      at[0] = from_float<KV_TYPE>(to_float(k[i]));
      at[Page::kVOffset] = from_float<KV_TYPE>(to_float(v[i]));
    }
  }
}

}  // namespace ingot::cuda
#endif
