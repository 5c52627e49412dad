#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Row: f32 scale, then K bytes of OCP e4m3. scale * value.
struct Weight {
  template <int K>
  static __device__ i64 row_bytes() {
    return K + 4;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const float scale = f32_at(row);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      out[i] = K % 8 == 0 || k + i < K ? scale * e4m3_to_float(row[4 + k + i]) : 0.0f;
  }
};

}  // namespace ingot::cuda
