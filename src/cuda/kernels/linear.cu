#include "cuda/device/launch.cuh"
#include "cuda/device/linear_tiles_params.cuh"

namespace ingot::cuda {

// Of the plain kernel, which takes every format and type; LinearTilesParams are the other's.
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
#ifdef TENSOR_TILES
// Defines: OUT_TYPE, TILE_BITS, TILE_GROUP, TILE_ROW_SCALE. Sizes are parameters, so that an
// engine's matrices share their code.
namespace ingot::cuda {
inline constexpr TileFormat kTileFormat = {TILE_BITS, TILE_GROUP, TILE_ROW_SCALE != 0};
}
#include "cuda/device/linear_tiles.cuh"

namespace ingot::cuda {

extern "C" __global__ void __launch_bounds__(kLinearTilesThreads, 1)
    linear(const __grid_constant__ LinearTilesParams p) {
  linear_tiles(p);
}

}  // namespace ingot::cuda
#else
// Defines: WIDTH, WEIGHT_ROWS, SWIGLU, INTERLEAVE, HAS_BIAS, HAS_RESIDUAL, X_TYPE, RESIDUAL_TYPE,
// OUT_TYPE, and the weight's (device/weight.cuh).
#include "cuda/device/reduce.cuh"
#include "cuda/device/weight.cuh"

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
__device__ Outputs multiply(const void* weight, int first_row, int second_row, const X_TYPE* x,
                            int count) {
  const int lane = threadIdx.x % 32;
  float sums[Rows][2] = {};
  for (int k = lane * 8; k < WIDTH; k += 32 * 8) {
    float w0[8];
    float w1[8];
    load_weight8(weight, first_row, k, w0);
    load_weight8(weight, second_row, k, w1);
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
  const int row0 = static_cast<int>(blockIdx.y) * kLinearRows;
  const int count = min(kLinearRows, p.rows - row0);
  const X_TYPE* x = static_cast<const X_TYPE*>(p.x) + static_cast<i64>(row0) * WIDTH;

  const auto [a0, b0] = count == 1 ? multiply<1>(p.weight, first, second, x, count)
                                   : multiply<kLinearRows>(p.weight, first, second, x, count);
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
#endif
