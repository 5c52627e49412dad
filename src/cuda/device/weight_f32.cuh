#pragma once

#include "cuda/device/float.cuh"

namespace ingot::cuda {

// Rows of f32: see quant/f32.cpp. The interface of every weight_<format>.cuh: values k .. k + 7 of
// a row.
struct Weight {
  template <int K>
  static __device__ i64 row_bytes() {
    return static_cast<i64>(K) * sizeof(f32);
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    load_row8<K>(reinterpret_cast<const f32*>(row), k, out);
  }
};

}  // namespace ingot::cuda
