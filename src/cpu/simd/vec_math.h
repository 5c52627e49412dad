#pragma once

// Functions over the vectors of the vec_*.h included before. One sequence of operations for every
// tier: those with fused multiply-add agree bit for bit, the generic one within 2 ulp.
namespace ingot::cpu {
namespace {

// 2^x, at most 2 ulp off; 0 below -126, NaN for NaN; x < 127. Minimax polynomial of relative error
// 1e-8 on [-1/2, 1/2].
inline Vec exp2_of(Vec x) {
  const Vec n = round_even(x);
  const Vec r = sub(x, n);
  Vec p = splat(1.5453163e-4f);
  p = mul_add(p, r, splat(1.3390863e-3f));
  p = mul_add(p, r, splat(9.618083e-3f));
  p = mul_add(p, r, splat(5.550357e-2f));
  p = mul_add(p, r, splat(2.4022651e-1f));
  p = mul_add(p, r, splat(6.9314718e-1f));
  p = mul_add(p, r, splat(1.0f));
  return times_power(p, n, x);
}

inline float exp2_of(float x) {
  float lanes[kLanes];
  store(lanes, exp2_of(splat(x)));
  return lanes[0];
}

// tanh, absolute error below 2e-7: 1 - 2 / (1 + e^2x).
inline Vec tanh_of(Vec x) {
  const Vec bounded = min(splat(20.0f), max(splat(-20.0f), x));
  const Vec e = exp2_of(mul(bounded, splat(2.8853900818f)));
  return sub(splat(1.0f), div(splat(2.0f), add(splat(1.0f), e)));
}

// Of 16 floats, in one order for every tier.
inline float sum_of_16(const float* x) {
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = x[i] + x[i + 8];
  for (int i = 0; i < 4; ++i) s[i] += s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

}  // namespace
}  // namespace ingot::cpu
