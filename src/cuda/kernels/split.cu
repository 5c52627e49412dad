#include "cuda/device/launch.cuh"

namespace ingot::cuda {

// Columns first .. first + columns of every row; one launch a result.
struct SplitParams {
  const void* x;  // [rows, WIDTH]
  void* out;      // [rows, columns]
  long long rows;
  int first;
  int columns;
};

constexpr Launch split_launch(long long rows, long long columns) {
  return {.grid_x = blocks_for(rows * columns, kElementThreads), .block = kElementThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, X_TYPE.
#include "cuda/device/float.cuh"

namespace ingot::cuda {

extern "C" __global__ void split(const __grid_constant__ SplitParams p) {
  const i64 i = static_cast<i64>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i >= p.rows * p.columns) return;
  const i64 row = i / p.columns;
  static_cast<X_TYPE*>(p.out)[i] =
      static_cast<const X_TYPE*>(p.x)[row * WIDTH + p.first + i % p.columns];
}

}  // namespace ingot::cuda
#endif
