#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct GatherRowsParams {
  const void* x;    // [*, WIDTH]
  const int* rows;  // [count]
  void* out;        // [count, WIDTH]
};

// One block a row.
constexpr Launch gather_rows_launch(long long count) {
  return {.grid_x = static_cast<unsigned>(count), .block = kElementThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, X_TYPE.
#include "cuda/device/float.cuh"

namespace ingot::cuda {

extern "C" __global__ void gather_rows(const __grid_constant__ GatherRowsParams p) {
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + static_cast<i64>(p.rows[blockIdx.x]) * WIDTH;
  X_TYPE* out = static_cast<X_TYPE*>(p.out) + static_cast<i64>(blockIdx.x) * WIDTH;
  for (int i = threadIdx.x; i < WIDTH; i += kElementThreads) out[i] = x[i];
}

}  // namespace ingot::cuda
#endif
