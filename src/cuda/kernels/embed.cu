#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct EmbedParams {
  const int* ids;     // [rows]
  const void* table;  // [vocabulary, WIDTH] in the weight's format
  void* out;          // [rows, WIDTH]
};

constexpr Launch embed_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = 128};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, OUT_TYPE, and the weight's (device/weight.cuh).
#include "cuda/device/weight.cuh"

namespace ingot::cuda {

extern "C" __global__ void embed(const __grid_constant__ EmbedParams p) {
  const i64 token = blockIdx.x;
  const int row = p.ids[token];
  OUT_TYPE* out = static_cast<OUT_TYPE*>(p.out) + token * WIDTH;
  for (int k = static_cast<int>(threadIdx.x) * 8; k < WIDTH; k += 128 * 8) {
    float values[8];
    load_weight8(p.table, row, k, values);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (WIDTH % 8 == 0 || k + i < WIDTH) out[k + i] = from_float<OUT_TYPE>(values[i]);
  }
}

}  // namespace ingot::cuda
#endif
