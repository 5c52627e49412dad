#pragma once

#include "cuda/device/kv_row.cuh"

// A page of a layer's KV state: [K and V][kv_head][token][head_dim], so that the tokens of one head
// lie one after another, then in 8 bit the scales [K and V][kv_head][token].
namespace ingot::cuda {

template <int KvHeads, int HeadDim, int PageTokens, typename T>
struct KvPage {
  static constexpr bool kScaled = has_scales<T>();
  static constexpr i64 kVOffset = static_cast<i64>(KvHeads) * PageTokens * HeadDim;
  static constexpr i64 kVScaleOffset = static_cast<i64>(KvHeads) * PageTokens;
  // Of a page, in values; those of 8 bit are bytes.
  static constexpr i64 kValues = 2 * kVOffset + (kScaled ? 2 * kVScaleOffset * 4 : 0);

  // The first value of K of a token in its page; V is kVOffset later.
  static __device__ i64 row(i64 page, int kv_head, int token) {
    return page * kValues + (static_cast<i64>(kv_head) * PageTokens + token) * HeadDim;
  }
  // The scale of K of a token; that of V is kVScaleOffset later.
  static __device__ i64 scale_offset(i64 page, int kv_head, int token) {
    return page * kValues + 2 * kVOffset + (static_cast<i64>(kv_head) * PageTokens + token) * 4;
  }
  static __device__ float* scale(void* pages, i64 page, int kv_head, int token) {
    return reinterpret_cast<float*>(static_cast<u8*>(pages) + scale_offset(page, kv_head, token));
  }
  static __device__ float scale(const void* pages, i64 page, int kv_head, int token, bool of_v) {
    const u8* at = static_cast<const u8*>(pages) + scale_offset(page, kv_head, token);
    return reinterpret_cast<const float*>(at)[of_v ? kVScaleOffset : 0];
  }
};

}  // namespace ingot::cuda
