#pragma once

#include "cuda/device/kv_row.cuh"
#include "cuda/device/mma.cuh"

// Values of a KV state as pairs of bf16, which hold every code of 8 bits exactly.
namespace ingot::cuda {

// Each half holds a code twice, in both of its bytes.
template <typename Kv>
__device__ u32 pair_of_codes(u32 twice);
template <>
__device__ inline u32 pair_of_codes<i8>(u32 twice) {
  // (128 + low seven bits) - (128 or 256), both without rounding.
  const u32 low = (twice & 0x007f007fu) | 0x43004300u;
  const u32 sign = (twice & 0x00800080u) | 0x43004300u;
  return fma_bf16x2(sign, 0xbf80bf80u, low);
}
template <>
__device__ inline u32 pair_of_codes<e4m3>(u32 twice) {
  // The exponent's bias is 120 less than that of bf16.
  const u32 small = ((twice >> 4) & 0x07f007f0u) | (twice & 0x80008000u);
  return fma_bf16x2(small, 0x7b807b80u, 0x80008000u);
}

// Values 2 i and 2 i + 1 of consecutive ones.
template <typename Kv, int Words>
__device__ u32 neighbours(const u32 (&row)[Words], int i) {
  if constexpr (sizeof(Kv) == 2)
    return row[i];
  else
    return pair_of_codes<Kv>(__byte_perm(row[i / 2], 0, i % 2 ? 0x3322 : 0x1100));
}

// Value i of one row beside value i of another.
template <typename Kv, int Words>
__device__ u32 beside(const u32 (&first)[Words], const u32 (&second)[Words], int i) {
  if constexpr (sizeof(Kv) == 2)
    return __byte_perm(first[i / 2], second[i / 2], i % 2 ? 0x7632 : 0x5410);
  else
    return pair_of_codes<Kv>(__byte_perm(first[i / 4], second[i / 4], 0x4400 + 0x1111 * (i % 4)));
}

}  // namespace ingot::cuda
