#pragma once

#include "cuda/device/float.cuh"

// A page of a layer's KV state: [K and V][kv_head][token][head_dim], so that the tokens of one head
// lie one after another.
namespace ingot::cuda {

template <int KvHeads, int HeadDim, int PageTokens>
struct KvPage {
  static constexpr i64 kValues = 2ll * KvHeads * PageTokens * HeadDim;
  static constexpr i64 kVOffset = kValues / 2;

  // The first value of K of a token in its page; V is kVOffset later.
  static __device__ i64 row(i64 page, int kv_head, int token) {
    return page * kValues + (static_cast<i64>(kv_head) * PageTokens + token) * HeadDim;
  }
};

}  // namespace ingot::cuda
