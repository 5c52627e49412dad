#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, 32 bytes: low nibble of byte j is value j, high nibble value j + 32. d * (q - 8).
struct Weight {
  static constexpr int kBlock = 64;
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
    const u8* p = block + 2 + j % 32;
    const int shift = j / 32 * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * static_cast<float>((p[i] >> shift & 15) - 8);
  }
};

}  // namespace ingot::cuda
