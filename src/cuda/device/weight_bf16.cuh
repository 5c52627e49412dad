#pragma once

#include "cuda/device/float.cuh"

namespace ingot::cuda {

// Rows of bf16.
struct Weight {
  template <int K>
  static __device__ i64 row_bytes() {
    return static_cast<i64>(K) * sizeof(bf16);
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    load_row8<K>(reinterpret_cast<const bf16*>(row), k, out);
  }
};

}  // namespace ingot::cuda
