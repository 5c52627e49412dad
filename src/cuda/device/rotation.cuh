#pragma once

#include "cuda/device/float.cuh"

// cos and sin of a position's angle. Not cosf and sinf: their way for large angles keeps an array
// in local memory.
namespace ingot::cuda {

struct Rotation {
  float cos;
  float sin;
};

// Any angle a position can have (below 2^24 in magnitude), to about 1 ulp: reduced by multiples of
// pi/2 in double, then the Taylor polynomials on [-pi/4, pi/4], whose error there is below 2^-26.
__device__ inline Rotation rotation_of(float angle) {
  const double quarters = rint(static_cast<double>(angle) * 0.63661977236758134308);
  const float x =
      static_cast<float>(fma(quarters, -1.57079632679489661923, static_cast<double>(angle)));
  const int quadrant = static_cast<int>(quarters) & 3;
  const float z = x * x;
  float sine = fmaf(z, 2.7557319e-6f, -1.9841270e-4f);
  sine = fmaf(z, sine, 8.3333333e-3f);
  sine = fmaf(z, sine, -1.6666667e-1f);
  sine = fmaf(x * z, sine, x);
  float cosine = fmaf(z, -2.7557319e-7f, 2.4801587e-5f);
  cosine = fmaf(z, cosine, -1.3888889e-3f);
  cosine = fmaf(z, cosine, 4.1666667e-2f);
  cosine = fmaf(z, cosine, -0.5f);
  cosine = fmaf(z, cosine, 1.0f);
  const bool swapped = quadrant & 1;
  const float c = swapped ? sine : cosine;
  const float s = swapped ? cosine : sine;
  return {quadrant == 1 || quadrant == 2 ? -c : c, quadrant >= 2 ? -s : s};
}

// Turns (a, b) by the angle of `position`. `scale` multiplies cos and sin.
__device__ inline void rotate(float& a, float& b, int position, float inv_freq, float scale) {
  // One rounding, as a reference that computes angles in f32 has; fmaf would hide it.
  const float angle = __fmul_rn(static_cast<float>(position), inv_freq);
  const Rotation r = rotation_of(angle);
  const float cosine = r.cos * scale;
  const float sine = r.sin * scale;
  const float turned = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = turned;
}

}  // namespace ingot::cuda
