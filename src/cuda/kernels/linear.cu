#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct LinearParams {
  const void* x;         // [rows, WIDTH]
  const void* weight;    // [WEIGHT_ROWS, WIDTH] in the weight's format
  const float* bias;     // [WEIGHT_ROWS], read when HAS_BIAS
  const void* residual;  // [rows, outputs], read when HAS_RESIDUAL
  void* out;             // [rows, outputs]
  int rows;
};

inline constexpr int kLinearWarps = 4;
inline constexpr int kLinearRows = 8;        // rows of x a warp takes at once
inline constexpr int kLinearWeightRows = 2;  // rows of the weight a warp takes: gate and up, or two

// Each warp turns two of them into two outputs, or into one with swiglu.
constexpr Launch linear_launch(long long rows, long long weight_rows) {
  return {.grid_x = blocks_for(weight_rows, kLinearWarps * kLinearWeightRows),
          .grid_y = blocks_for(rows, kLinearRows),
          .block = kLinearWarps * 32};
}

}  // namespace ingot::cuda

#ifdef __CUDACC__
// Defines: WIDTH, WEIGHT_ROWS, SWIGLU, INTERLEAVE, HAS_BIAS, HAS_RESIDUAL, X_TYPE, RESIDUAL_TYPE,
// OUT_TYPE, WEIGHT_HEADER.
#include "cuda/device/reduce.cuh"
#include WEIGHT_HEADER

namespace ingot::cuda {

struct Outputs {
  float first;
  float second;
};

// Products of both weight rows with Rows rows of x; lane m gets row m's. Rows past `count` repeat
// the last one, without branches. The K order is fixed: lane l adds values 256 i + 8 l .. + 7 in
// order of i, then lanes are summed by a butterfly. It depends neither on the number of rows nor on
// a row's place among them.
template <int Rows>
__device__ Outputs multiply(const u8* first_row, const u8* second_row, const X_TYPE* x, int count) {
  const int lane = threadIdx.x % 32;
  float sums[Rows][2] = {};
  for (int k = lane * 8; k < WIDTH; k += 32 * 8) {
    float w0[8];
    float w1[8];
    Weight::load8<WIDTH>(first_row, k, w0);
    Weight::load8<WIDTH>(second_row, k, w1);
#pragma unroll
    for (int m = 0; m < Rows; ++m) {
      float v[8];
      load_row8<WIDTH>(x + static_cast<i64>(min(m, count - 1)) * WIDTH, k, v);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums[m][0] = fmaf(v[i], w0[i], sums[m][0]);
        sums[m][1] = fmaf(v[i], w1[i], sums[m][1]);
      }
    }
  }
  Outputs own = {0, 0};
#pragma unroll
  for (int m = 0; m < Rows; ++m) {
    const float first = warp_sum(sums[m][0]);
    const float second = warp_sum(sums[m][1]);
    if (lane == m) own = {first, second};
  }
  return own;
}

// Three blocks a multiprocessor leave registers enough; without a number ptxas saves some and
// spills.
extern "C" __global__ void __launch_bounds__(kLinearWarps * 32, 3)
    linear(const __grid_constant__ LinearParams p) {
  constexpr int kOutputs = SWIGLU ? WEIGHT_ROWS / 2 : WEIGHT_ROWS;
  const int lane = threadIdx.x % 32;
  const int pair = static_cast<int>(blockIdx.x) * kLinearWarps + static_cast<int>(threadIdx.x) / 32;
  if (2 * pair >= WEIGHT_ROWS) return;
  // Weight rows of the pair; a last odd row is taken twice.
  const int first = SWIGLU ? pair / INTERLEAVE * 2 * INTERLEAVE + pair % INTERLEAVE : 2 * pair;
  const int second = SWIGLU ? first + INTERLEAVE : min(first + 1, WEIGHT_ROWS - 1);
  const u8* weight = static_cast<const u8*>(p.weight);
  const u8* first_row = weight + first * Weight::row_bytes<WIDTH>();
  const u8* second_row = weight + second * Weight::row_bytes<WIDTH>();
  const int row0 = static_cast<int>(blockIdx.y) * kLinearRows;
  const int count = min(kLinearRows, p.rows - row0);
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + static_cast<i64>(row0) * WIDTH;

  const auto [a0, b0] = count == 1 ? multiply<1>(first_row, second_row, x, count)
                                   : multiply<kLinearRows>(first_row, second_row, x, count);
  if (lane >= count) return;
  float a = a0;
  float b = b0;
  if (HAS_BIAS) a += p.bias[first], b += p.bias[second];
  const i64 base = static_cast<i64>(row0 + lane) * kOutputs + (SWIGLU ? pair : first);
  OUT_TYPE* out = static_cast<OUT_TYPE*>(p.out) + base;
  const RESIDUAL_TYPE* residual = static_cast<const RESIDUAL_TYPE*>(p.residual) + base;
  if (SWIGLU) {
    a = silu(a) * b;
    if (HAS_RESIDUAL) a += to_float(residual[0]);
    out[0] = from_float<OUT_TYPE>(a);
    return;
  }
  if (HAS_RESIDUAL) a += to_float(residual[0]);
  out[0] = from_float<OUT_TYPE>(a);
  if (second == first) return;
  if (HAS_RESIDUAL) b += to_float(residual[1]);
  out[1] = from_float<OUT_TYPE>(b);
}

}  // namespace ingot::cuda
#endif
