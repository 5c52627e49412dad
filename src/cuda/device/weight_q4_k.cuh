#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, f16 dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
struct Weight {
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 144;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const int sub = j / 32;
    const ScaleMin packed = k_scale_min(block + 4, sub);
    const float step = f16_at(block) * packed.scale;
    const float base = f16_at(block + 2) * packed.min;
    const u8* p = block + 16 + sub / 2 * 32 + j % 32;
    const int shift = sub % 2 * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = step * static_cast<float>(p[i] >> shift & 15) - base;
  }
};

}  // namespace ingot::cuda
