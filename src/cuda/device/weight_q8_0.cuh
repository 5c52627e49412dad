#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, 32 signed bytes. d * q.
struct Weight {
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 34;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const float d = f16_at(block);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * static_cast<float>(i8_at(block + 2 + j + i));
  }
};

}  // namespace ingot::cuda
