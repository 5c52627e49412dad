#pragma once

#include "cuda/device/float.cuh"

// Fields of quantised blocks, which lie at any byte: no wide loads.
namespace ingot::cuda {

__device__ inline u32 u16_at(const u8* p) {
  return p[0] | static_cast<u32>(p[1]) << 8;
}
__device__ inline u32 u32_at(const u8* p) {
  return u16_at(p) | u16_at(p + 2) << 16;
}
__device__ inline float f16_at(const u8* p) {
  return to_float(f16{static_cast<u16>(u16_at(p))});
}
__device__ inline float f32_at(const u8* p) {
  return __uint_as_float(u32_at(p));
}
__device__ inline int i8_at(const u8* p) {
  return static_cast<signed char>(*p);
}

// OCP e4m3 through f16, which holds its every value: exponent and mantissa move into place, and the
// difference of the biases is a factor of 2^8. 0x7f is NaN.
__device__ inline float e4m3_to_float(u32 v) {
  if ((v & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000u);
  return to_float(f16{static_cast<u16>((v & 0x80) << 8 | (v & 0x7f) << 7)}) * 256.0f;
}

// Tables as words, a byte an entry: an array indexed at run time would lie in local memory.
// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
__device__ inline float iq4_value(int q) {
  const u64 word = q < 8 ? 0xf6eaddcfbfad9881ull : 0x7159453526190d01ull;
  return static_cast<float>(static_cast<signed char>(word >> (q % 8 * 8)));
}
// Twice an e2m1 number: 0 1 2 3 4 6 8 12 and their negatives.
__device__ inline float e2m1_doubled(int q) {
  const float magnitude = static_cast<float>(0x0c08060403020100ull >> (q % 8 * 8) & 0xff);
  return q & 8 ? -magnitude : magnitude;
}

// Blocks of 32 keep value j < 16 in the low nibble of byte j and value j + 16 in its high one. The
// eight nibbles from value j (a multiple of 8) on.
__device__ inline void nibbles8_of_32(const u8* quants, int j, int (&q)[8]) {
  const u8* p = quants + j % 16;
  const int shift = j / 16 * 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) q[i] = p[i] >> shift & 15;
}

// The 6-bit scale and minimum of sub-block j (0 .. 7) in the 12 packed bytes of q4_k and q5_k.
struct ScaleMin {
  float scale;
  float min;
};
__device__ inline ScaleMin k_scale_min(const u8* b, int j) {
  const int low = j % 4;
  if (j < 4) return {static_cast<float>(b[low] & 63), static_cast<float>(b[low + 4] & 63)};
  return {static_cast<float>((b[low + 8] & 15) | (b[low] >> 6) << 4),
          static_cast<float>((b[low + 8] >> 4) | (b[low + 4] >> 6) << 4)};
}

}  // namespace ingot::cuda
