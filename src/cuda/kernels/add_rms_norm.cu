#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct AddRmsNormParams {
  const void* x;        // [rows, WIDTH]
  const void* y;        // [rows, WIDTH]
  const float* weight;  // [WIDTH]
  void* sum;            // [rows, WIDTH]: x + y; may be x's or y's memory
  void* out;            // [rows, WIDTH]: the norm of the sum
  float eps;
};

inline constexpr int kAddNormThreads = 256;
inline constexpr int kAddNormWidest = 128 * kAddNormThreads;  // a row stays in registers

// One block a row.
constexpr Launch add_rms_norm_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = kAddNormThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, X_TYPE.
#include "cuda/device/reduce.cuh"
#include "cuda/device/ring.cuh"

namespace ingot::cuda {

// The norm is of the sum before it is rounded for storage.
extern "C" __global__ void __launch_bounds__(kAddNormThreads)
    add_rms_norm(const __grid_constant__ AddRmsNormParams p) {
  constexpr int kValues = (WIDTH + kAddNormThreads - 1) / kAddNormThreads;  // a thread's
  allow_next_kernel();
  __shared__ float scratch[kAddNormThreads / 32];
  const i64 base = static_cast<i64>(blockIdx.x) * WIDTH;
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + base;
  const X_TYPE* y = static_cast<const X_TYPE*>(p.y) + base;
  X_TYPE* sum = static_cast<X_TYPE*>(p.sum) + base;
  X_TYPE* out = static_cast<X_TYPE*>(p.out) + base;
  float kept[kValues];
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    const int i = j * kAddNormThreads + static_cast<int>(threadIdx.x);
    if (i >= WIDTH) continue;
    kept[j] = to_float(x[i]) + to_float(y[i]);
    sum[i] = from_float<X_TYPE>(kept[j]);
    squares = fmaf(kept[j], kept[j], squares);
  }
  const float total = block_sum<kAddNormThreads>(squares, scratch);
  const float inverse = 1.0f / sqrtf(total / static_cast<float>(WIDTH) + p.eps);
#pragma unroll
  for (int j = 0; j < kValues; ++j) {
    const int i = j * kAddNormThreads + static_cast<int>(threadIdx.x);
    if (i < WIDTH) out[i] = from_float<X_TYPE>(kept[j] * inverse * p.weight[i]);
  }
}

}  // namespace ingot::cuda
#endif
