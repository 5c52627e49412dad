#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct RmsNormParams {
  const void* x;        // [rows, WIDTH]
  const float* weight;  // [WIDTH]
  void* out;            // [rows, WIDTH]
  float eps;
};

inline constexpr int kNormThreads = 256;

// One block a row.
constexpr Launch rms_norm_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = kNormThreads};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, X_TYPE.
#include "cuda/device/reduce.cuh"
#include "cuda/device/ring.cuh"

namespace ingot::cuda {

extern "C" __global__ void __launch_bounds__(kNormThreads)
    rms_norm(const __grid_constant__ RmsNormParams p) {
  allow_next_kernel();
  __shared__ float scratch[kNormThreads / 32];
  const i64 base = static_cast<i64>(blockIdx.x) * WIDTH;
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + base;
  X_TYPE* out = static_cast<X_TYPE*>(p.out) + base;
  float squares = 0;
  for (int i = threadIdx.x; i < WIDTH; i += kNormThreads) {
    const float v = to_float(x[i]);
    squares = fmaf(v, v, squares);
  }
  const float total = block_sum<kNormThreads>(squares, scratch);
  const float inverse = 1.0f / sqrtf(total / static_cast<float>(WIDTH) + p.eps);
  for (int i = threadIdx.x; i < WIDTH; i += kNormThreads)
    out[i] = from_float<X_TYPE>(to_float(x[i]) * inverse * p.weight[i]);
}

}  // namespace ingot::cuda
#endif
