#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct CastParams {
  const void* x;
  void* out;
  long long count;  // values
};

constexpr Launch cast_launch(long long count) {
  return {.grid_x = blocks_for(count, kElementThreads), .block = kElementThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: X_TYPE, OUT_TYPE.
#include "cuda/device/float.cuh"

namespace ingot::cuda {

extern "C" __global__ void cast(const __grid_constant__ CastParams p) {
  const i64 i = static_cast<i64>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i >= p.count) return;
  static_cast<OUT_TYPE*>(p.out)[i] =
      from_float<OUT_TYPE>(to_float(static_cast<const X_TYPE*>(p.x)[i]));
}

}  // namespace ingot::cuda
#endif
