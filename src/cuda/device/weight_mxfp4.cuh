#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: an exponent byte, nibbles of e2m1. 2^(e - 127) * value.
struct Weight {
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 17;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    // Half the scale, since the values are doubled; its smallest two are subnormal.
    const u32 e = block[0];
    const float scale = __uint_as_float(e >= 2 ? (e - 1) << 23 : 0x200000u << e);
    int q[8];
    nibbles8_of_32(block + 1, j, q);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * e2m1_doubled(q[i]);
  }
};

}  // namespace ingot::cuda
