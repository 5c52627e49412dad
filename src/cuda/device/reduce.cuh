#pragma once

#include "cuda/device/float.cuh"

// Reductions in one fixed order, so that equal inputs give equal bits whatever else runs.
namespace ingot::cuda {

// Softmax's score of what is not visible.
__device__ inline float minus_infinity() {
  return __uint_as_float(0xff800000u);
}

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;  // the same bits in every lane: each step adds the same two numbers on both sides
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

// Over a block of Threads, the result in every thread. `scratch` holds one float a warp and may be
// used again right away.
template <int Threads>
__device__ float block_sum(float x, float* scratch) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float total = scratch[0];
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp) total += scratch[warp];
  __syncthreads();
  return total;
}

template <int Threads>
__device__ float block_max(float x, float* scratch) {
  x = warp_max(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float largest = scratch[0];
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp) largest = fmaxf(largest, scratch[warp]);
  __syncthreads();
  return largest;
}

}  // namespace ingot::cuda
