#pragma once

// Number types and conversions of device code; no CUDA header is used.
namespace ingot::cuda {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};
using f32 = float;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(bf16 x) {
  return __uint_as_float(static_cast<u32>(x.bits) << 16);
}
__device__ inline float to_float(f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}

// Round to nearest even; NaN stays NaN.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
template <>
__device__ inline f16 from_float<f16>(float x) {
  f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}

// The value as it will be read back after a store as T.
template <typename T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// Not an exact division: its slow path is a call, around which registers spill. To about 2 ulp.
__device__ inline float silu(float x) {
  return __fdividef(x, 1.0f + expf(-x));
}

struct alignas(16) Vector16 {
  u32 words[4];
};

// Eight consecutive values at a multiple of 16 bytes.
__device__ inline void load8(const float* p, float (&out)[8]) {
  const float4 low = *reinterpret_cast<const float4*>(p);
  const float4 high = *reinterpret_cast<const float4*>(p + 4);
  out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
  out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
}
__device__ inline void load8(const bf16* p, float (&out)[8]) {
  const Vector16 v = *reinterpret_cast<const Vector16*>(p);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(v.words[i] << 16);
    out[2 * i + 1] = __uint_as_float(v.words[i] & 0xffff0000u);
  }
}
__device__ inline void load8(const f16* p, float (&out)[8]) {
  const Vector16 v = *reinterpret_cast<const Vector16*>(p);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = to_float(f16{static_cast<u16>(v.words[i])});
    out[2 * i + 1] = to_float(f16{static_cast<u16>(v.words[i] >> 16)});
  }
}
// The same at any address; values past `count` are zero and not read.
template <typename T>
__device__ void load_some(const T* p, int count, float (&out)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = i < count ? to_float(p[i]) : 0.0f;
}

// Values k .. k + 7 of a row of K; rows start at multiples of 16 bytes exactly when K % 8 is 0.
template <int K, typename T>
__device__ void load_row8(const T* row, int k, float (&out)[8]) {
  if constexpr (K % 8 == 0)
    load8(row + k, out);
  else
    load_some(row + k, K - k, out);
}

}  // namespace ingot::cuda
