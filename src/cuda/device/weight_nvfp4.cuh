#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: 4 scales in unsigned e4m3 (0x7f reads as 0), 8 bytes of e2m1 nibbles for each 16 values.
struct Weight {
  static constexpr int kBlock = 64;
  static constexpr int kBytes = 36;
  template <int K>
  static __device__ i64 row_bytes() {
    return K / kBlock * kBytes;
  }
  template <int K>
  static __device__ void load8(const u8* row, int k, float (&out)[8]) {
    const u8* block = row + static_cast<i64>(k / kBlock) * kBytes;
    const int j = k % kBlock;
    const int sub = j / 16;
    const u32 code = block[sub] & 0x7f;
    const float scale = code == 0x7f ? 0.0f : e4m3_to_float(code) * 0.5f;
    const u8* p = block + 4 + sub * 8;
    const int shift = j % 16 / 8 * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * e2m1_doubled(p[i] >> shift & 15);
  }
};

}  // namespace ingot::cuda
