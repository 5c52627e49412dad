#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, nibbles that index a table. d * table[q].
struct Weight {
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 18;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const float d = f16_at(block);
    int q[8];
    nibbles8_of_32(block + 2, j, q);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * iq4_value(q[i]);
  }
};

}  // namespace ingot::cuda
