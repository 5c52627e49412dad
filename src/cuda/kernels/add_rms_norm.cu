#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct AddRmsNormParams {
  const void* x;        // [rows, WIDTH]
  const void* y;        // [rows, WIDTH]
  const float* weight;  // [WIDTH]
  void* sum;            // [rows, WIDTH]: x + y; may be x's or y's memory
  void* out;            // [rows, WIDTH]: the norm of the sum as stored
  float eps;
};

inline constexpr int kAddNormThreads = 256;

// One block a row.
constexpr Launch add_rms_norm_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = kAddNormThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, X_TYPE.
#include "cuda/device/reduce.cuh"

namespace ingot::cuda {

// Gives the bits of add and rms_norm one after the other.
extern "C" __global__ void __launch_bounds__(kAddNormThreads)
    add_rms_norm(const __grid_constant__ AddRmsNormParams p) {
  __shared__ float scratch[kAddNormThreads / 32];
  const i64 base = static_cast<i64>(blockIdx.x) * WIDTH;
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + base;
  const X_TYPE* y = static_cast<const X_TYPE*>(p.y) + base;
  X_TYPE* sum = static_cast<X_TYPE*>(p.sum) + base;
  X_TYPE* out = static_cast<X_TYPE*>(p.out) + base;
  float squares = 0;
  for (int i = threadIdx.x; i < WIDTH; i += kAddNormThreads) {
    const X_TYPE stored = from_float<X_TYPE>(to_float(x[i]) + to_float(y[i]));
    const float v = to_float(stored);
    sum[i] = stored;
    squares = fmaf(v, v, squares);
  }
  const float total = block_sum<kAddNormThreads>(squares, scratch);
  const float inverse = 1.0f / sqrtf(total / static_cast<float>(WIDTH) + p.eps);
  // Each thread reads back what it wrote itself.
  for (int i = threadIdx.x; i < WIDTH; i += kAddNormThreads)
    out[i] = from_float<X_TYPE>(to_float(sum[i]) * inverse * p.weight[i]);
}

}  // namespace ingot::cuda
#endif
