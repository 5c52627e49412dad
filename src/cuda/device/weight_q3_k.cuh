#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: 32 bytes of third bits, 64 bytes of 2-bit quants, 12 bytes of 6-bit scales, f16 d.
struct Weight {
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 110;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const int sub = j / 16;
    const u8* scales = block + 96;
    const int low = scales[sub % 8] >> (sub / 8 * 4) & 15;
    const int high = scales[8 + sub % 4] >> (sub / 4 * 2) & 3;
    const float scale = f16_at(block + 108) * static_cast<float>((low | high << 4) - 32);
    const u8* p = block + 32 + sub / 8 * 32 + j % 32;
    const u8* third = block + j % 32;
    const int shift = sub / 2 % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int value = (p[i] >> shift & 3) - (third[i] >> (sub / 2) & 1 ? 0 : 4);
      out[i] = scale * static_cast<float>(value);
    }
  }
};

}  // namespace ingot::cuda
