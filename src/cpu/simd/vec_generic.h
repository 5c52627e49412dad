#pragma once

// Four floats in the compiler's own vectors: the tier without any particular instruction set. The
// vec_*.h headers give the same names to the *_body.h files; all are internal to their includer.
#include <math.h>
#include <stdint.h>
#include <string.h>

namespace ingot::cpu {
namespace {

inline constexpr int kLanes = 4;
inline constexpr int kAccumulators = 12;  // vectors that a tile may hold in registers
typedef float Vec __attribute__((vector_size(16)));
typedef int32_t Int __attribute__((vector_size(16)));

inline Vec load(const float* p) {
  Vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Vec v) {
  memcpy(p, &v, sizeof v);
}
inline Vec splat(float x) {
  return Vec{x, x, x, x};
}
inline Vec mul_add(Vec a, Vec b, Vec c) {
  return a * b + c;
}
inline float mul_add(float a, float b, float c) {
  return a * b + c;
}
inline Vec add(Vec a, Vec b) {
  return a + b;
}
inline Vec sub(Vec a, Vec b) {
  return a - b;
}
inline Vec mul(Vec a, Vec b) {
  return a * b;
}
inline Vec div(Vec a, Vec b) {
  return a / b;
}
// b where either is NaN, as the instruction does.
inline Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}
inline Vec min(Vec a, Vec b) {
  return a < b ? a : b;
}
// a < b ? x : y, false for NaN.
inline Vec where_less(Vec a, Vec b, Vec x, Vec y) {
  return a < b ? x : y;
}
inline Vec lane_numbers() {
  return Vec{0, 1, 2, 3};
}
// To the nearest even integer, for |x| < 2^22.
inline Vec round_even(Vec x) {
  const Vec magic = splat(12582912.0f);
  return (x + magic) - magic;
}
// 2^n for whole n in [-127, 127]; 0 for -127.
inline Vec power_of_two(Vec n) {
  const Int i = __builtin_convertvector(n, Int);
  const Int bits = (i + 127) << 23;
  Vec v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
// The lower and upper halves of 32-bit words, as bf16.
inline void load_bf16_pairs(const uint16_t* p, Vec& even, Vec& odd) {
  Int words;
  memcpy(&words, p, sizeof words);
  const Int low = words << 16;
  const Int high = words & Int{-65536, -65536, -65536, -65536};
  memcpy(&even, &low, sizeof low);
  memcpy(&odd, &high, sizeof high);
}
inline Vec load_bf16(const uint16_t* p) {
  const Int words = {p[0] << 16, p[1] << 16, p[2] << 16, p[3] << 16};
  Vec v;
  memcpy(&v, &words, sizeof v);
  return v;
}
inline void store_bf16(uint16_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) {
    const float x = v[i];
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    const uint32_t nan = (u >> 16) | 0x40u;
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    p[i] = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

}  // namespace
}  // namespace ingot::cpu
