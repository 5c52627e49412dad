#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Row: f32 scale, then K bytes of OCP e4m3. scale * value.
struct Weight {
  // OCP e4m3 through f16, which holds its every value: exponent and mantissa move into place, and
  // the difference of the biases is a factor of 2^8. 0x7f is NaN.
  static __device__ float e4m3_at(const u8* p) {
    const u32 v = *p;
    if ((v & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000u);
    return to_float(f16{static_cast<u16>((v & 0x80) << 8 | (v & 0x7f) << 7)}) * 256.0f;
  }
  template <int K>
  static __device__ i64 row_bytes() {
    return K + 4;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const float scale = f32_at(row);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      out[i] = K % 8 == 0 || k + i < K ? scale * e4m3_at(row + 4 + k + i) : 0.0f;
  }
};

}  // namespace ingot::cuda
