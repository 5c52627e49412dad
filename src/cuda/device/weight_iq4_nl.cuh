#pragma once

#include "cuda/device/quant_bytes.cuh"

namespace ingot::cuda {

// Block: f16 d, nibbles that index a table. d * table[q].
struct Weight {
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 18;
  // Table -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, eight bytes a word: an array
  // indexed at run time would lie in local memory.
  static __device__ int entry(int q) {
    const u64 word = q < 8 ? 0xf6eaddcfbfad9881ull : 0x7159453526190d01ull;
    return static_cast<signed char>(word >> (q % 8 * 8));
  }
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
    for (int i = 0; i < 8; ++i) out[i] = d * static_cast<float>(entry(q[i]));
  }
};

}  // namespace ingot::cuda
