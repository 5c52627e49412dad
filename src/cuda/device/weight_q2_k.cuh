#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: 16 bytes of 4-bit scales and minima, 64 bytes of 2-bit quants, f16 d, f16 dmin.
struct Weight {
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 84;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const int sub = j / 16;
    const float scale = f16_at(block + 80) * static_cast<float>(block[sub] & 15);
    const float min = f16_at(block + 82) * static_cast<float>(block[sub] >> 4);
    const u8* p = block + 16 + sub / 8 * 32 + j % 32;
    const int shift = sub / 2 % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(p[i] >> shift & 3) - min;
  }
};

}  // namespace ingot::cuda
