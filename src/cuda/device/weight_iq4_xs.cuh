#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, 2 high scale bits a sub-block, low scale nibbles, 16 bytes a sub-block of 32 as in
// iq4_nl.
struct Weight {
  static constexpr int kBlock = 256;
  static constexpr int kBytes = 136;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const int sub = j / 32;
    const int low = block[4 + sub / 2] >> (sub % 2 * 4) & 15;
    const int high = u16_at(block + 2) >> (2 * sub) & 3;
    const float step = f16_at(block) * static_cast<float>((low | high << 4) - 32);
    int q[8];
    nibbles8_of_32(block + 8 + sub * 16, j % 32, q);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = step * iq4_value(q[i]);
  }
};

}  // namespace ingot::cuda
