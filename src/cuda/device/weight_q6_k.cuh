#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: 128 bytes of low nibbles, 64 bytes of 2 high bits, 16 signed scales, f16 d.
struct Weight {
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 210;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const int sub = j / 16;
    const int half = sub / 8;
    const int group = sub / 2 % 4;
    const float scale = f16_at(block + 208) * static_cast<float>(i8_at(block + 192 + sub));
    const u8* low = block + half * 64 + group % 2 * 32 + j % 32;
    const u8* high = block + 128 + half * 32 + j % 32;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int value = (low[i] >> (group / 2 * 4) & 15) | (high[i] >> (group * 2) & 3) << 4;
      out[i] = scale * static_cast<float>(value - 32);
    }
  }
};

}  // namespace ingot::cuda
