#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct AddParams {
  const void* x;
  const void* y;
  void* out;
  long long count;  // values
};

constexpr Launch add_launch(long long count) {
  return {.grid_x = blocks_for(count, kElementThreads), .block = kElementThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: X_TYPE.
#include "cuda/device/float.cuh"

namespace ingot::cuda {

extern "C" __global__ void add(const __grid_constant__ AddParams p) {
  const i64 i = static_cast<i64>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i >= p.count) return;
  const float x = to_float(static_cast<const X_TYPE*>(p.x)[i]);
  const float y = to_float(static_cast<const X_TYPE*>(p.y)[i]);
  static_cast<X_TYPE*>(p.out)[i] = from_float<X_TYPE>(x + y);
}

}  // namespace ingot::cuda
#endif
