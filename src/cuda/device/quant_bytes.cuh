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
