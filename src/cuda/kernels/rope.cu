#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct RopeParams {
  const void* x;          // [rows, HEADS * HEAD_DIM]
  const int* positions;   // [rows]
  const float* inv_freq;  // [*, ROTARY_DIM / 2]
  const int* rope_row;    // [rows]: which row of inv_freq a token uses
  void* out;              // as x; may be x's memory
  float scale;            // on cos and sin
};

// One block a row.
constexpr Launch rope_launch(long long rows) {
  return {.grid_x = static_cast<unsigned>(rows), .block = 128};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: HEADS, HEAD_DIM, ROTARY_DIM, INTERLEAVED, X_TYPE.
#include "cuda/device/rotation.cuh"

namespace ingot::cuda {

extern "C" __global__ void rope(const __grid_constant__ RopeParams p) {
  constexpr int kPairs = ROTARY_DIM / 2;
  constexpr int kRest = HEAD_DIM - ROTARY_DIM;
  const i64 base = static_cast<i64>(blockIdx.x) * HEADS * HEAD_DIM;
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + base;
  X_TYPE* out = static_cast<X_TYPE*>(p.out) + base;
  const int position = p.positions[blockIdx.x];
  const float* inv_freq = p.inv_freq + static_cast<i64>(p.rope_row[blockIdx.x]) * kPairs;
  for (int i = threadIdx.x; i < HEADS * kPairs; i += 128) {
    const int pair = i % kPairs;
    const int head = i / kPairs * HEAD_DIM;
    const int first = head + (INTERLEAVED ? 2 * pair : pair);
    const int second = first + (INTERLEAVED ? 1 : kPairs);
    float a = to_float(x[first]);
    float b = to_float(x[second]);
    rotate(a, b, position, inv_freq[pair], p.scale);
    out[first] = from_float<X_TYPE>(a);
    out[second] = from_float<X_TYPE>(b);
  }
  if constexpr (kRest > 0)
    for (int i = threadIdx.x; i < HEADS * kRest; i += 128) {
      const int at = i / kRest * HEAD_DIM + ROTARY_DIM + i % kRest;
      out[at] = x[at];
    }
}

}  // namespace ingot::cuda
#endif
