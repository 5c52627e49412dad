#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, u32 fifth bits, nibbles. d * (q - 16).
struct Weight {
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 22;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const float d = f16_at(block);
    const u32 fifth = u32_at(block + 2) >> j;
    int q[8];
    nibbles8_of_32(block + 6, j, q);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int value = q[i] | static_cast<int>(fifth >> i & 1) << 4;
      out[i] = d * static_cast<float>(value - 16);
    }
  }
};

}  // namespace ingot::cuda
