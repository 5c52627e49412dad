#pragma once

#include "cuda/device/float.cuh"

// A row of an 8-bit KV state: the K, or the V, of one token and kv head, codes and an f32 scale
// (ops/reference/kv_row.h says what they mean). Plain arithmetic, so that every architecture gives
// the same bits.
namespace ingot::cuda {

struct i8 {
  signed char bits;
};
struct e4m3 {
  u8 bits;
};

template <typename T>
__device__ constexpr bool has_scales() {
  return sizeof(T) == 1;
}

__device__ inline float to_float(i8 x) {
  return static_cast<float>(x.bits);
}
// No subnormal number is ever written.
__device__ inline float to_float(e4m3 x) {
  const u32 size = (x.bits & 0x7fu) << 20;
  const u32 sign = (x.bits & 0x80u) << 24;
  return size < 0x00800000u ? 0.0f : __uint_as_float(size + 0x3c000000u + sign);
}

// Eight consecutive values at a multiple of 8 bytes.
template <typename T>
__device__ void load8_bytes(const T* p, float (&out)[8]) {
  const uint2 v = *reinterpret_cast<const uint2*>(p);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[i] = to_float(T{static_cast<decltype(T::bits)>(v.x >> (8 * i))});
    out[i + 4] = to_float(T{static_cast<decltype(T::bits)>(v.y >> (8 * i))});
  }
}
__device__ inline void load8(const i8* p, float (&out)[8]) {
  load8_bytes(p, out);
}
__device__ inline void load8(const e4m3* p, float (&out)[8]) {
  load8_bytes(p, out);
}

// The largest number that a code stands for.
template <typename T>
__device__ constexpr float largest_code();
template <>
__device__ constexpr float largest_code<i8>() {
  return 127.0f;
}
template <>
__device__ constexpr float largest_code<e4m3>() {
  return 448.0f;
}

template <typename T>
__device__ T code_of(float x);
template <>
__device__ inline i8 code_of<i8>(float x) {
  return {static_cast<signed char>(__float2int_rn(x))};
}
// To nearest even, subnormal ones to 0.
template <>
__device__ inline e4m3 code_of<e4m3>(float x) {
  const u32 bits = __float_as_uint(x);
  const u32 size = bits & 0x7fffffffu;
  const u32 low = max(size, 0x3c800000u);
  const u32 code = min((low - 0x3c000000u + 0x7ffffu + ((low >> 20) & 1u)) >> 20, 0x7eu);
  return {static_cast<u8>(size < 0x3c700000u ? 0u : code | ((bits >> 24) & 0x80u))};
}

// By a whole warp: the row of value(0) to value(HeadDim - 1).
template <int HeadDim, typename T, typename Value>
__device__ void store_kv_row(Value value, T* to, float* scale) {
  constexpr u32 kZeroRow = 0x0da24260u;  // 1e-30
  constexpr u32 kNoNumber = 0x7f800000u;
  const int lane = threadIdx.x % 32;
  u32 size = 0;  // as bits: what is no number exceeds all that are
  for (int d = lane; d < HeadDim; d += 32)
    size = max(size, __float_as_uint(value(d)) & 0x7fffffffu);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    size = max(size, __shfl_xor_sync(0xffffffffu, size, offset));
  const bool kept = size >= kZeroRow && size < kNoNumber;
  const float largest = __uint_as_float(size);
  const float by = __fdiv_rn(largest_code<T>(), kept ? largest : 1.0f);
  for (int d = lane; d < HeadDim; d += 32) to[d] = code_of<T>(kept ? value(d) * by : 0.0f);
  if (lane > 0) return;
  *scale = kept ? __fdiv_rn(largest, largest_code<T>())
                : __uint_as_float(size < kZeroRow ? 0u : 0x7fc00000u);
}

}  // namespace ingot::cuda
