#pragma once

#include "cuda/device/float.cuh"

// Products of bf16 on tensor cores, for every architecture from sm_80. Of a fragment, lane 4 g + q
// of a warp holds: A (16 x 16) pairs of rows g and g + 8 at columns 2 q and 2 q + 8, B (8 columns)
// of column g at rows 2 q and 2 q + 8, C (16 x 8) numbers of rows g and g + 8 at columns 2 q.
namespace ingot::cuda {

// c += A B. A column of C depends on its own column of B alone.
__device__ inline void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// An 8 x 8 matrix of 16-bit values, two of row g in each lane: transposed.
__device__ inline u32 transposed(u32 row) {
  u32 column;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}

__device__ inline u32 pack_bf16(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// To 2 ulp; 0 at minus infinity.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// (a & mask) | bits, in one instruction whatever is constant.
__device__ inline u32 and_or(u32 a, u32 mask, u32 bits) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "r"(mask), "r"(bits));
  return result;
}

__device__ inline u32 fma_bf16x2(u32 a, u32 b, u32 c) {
  u32 result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

// Memory that nothing writes while the kernel runs and that no other block soon reads.
template <int Words>
__device__ void load_words(const void* from, u32 (&to)[Words]) {
  if constexpr (Words == 4)
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
        : "l"(from));
  else if constexpr (Words == 2)
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
        : "=r"(to[0]), "=r"(to[1])
        : "l"(from));
  else
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(to[0]) : "l"(from));
}

}  // namespace ingot::cuda
