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
typedef int16_t Words __attribute__((vector_size(16)));
typedef int16_t HalfWords __attribute__((vector_size(8)));
typedef int8_t HalfBytes __attribute__((vector_size(8)));

// The bits of one vector as another.
template <class To, class From>
inline To bits_as(From from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

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
// 2 * kLanes int8 as pairs of int16, and e4m3 without subnormals as pairs of bf16.
inline Vec int8_words(const uint8_t* p) {
  HalfBytes bytes;
  memcpy(&bytes, p, sizeof bytes);
  return bits_as<Vec>(__builtin_convertvector(bytes, Words));
}
inline Vec e4m3_words(const uint8_t* p) {
  const Words words = bits_as<Words>(int8_words(p)) << 4;
  const Words bits = words & static_cast<int16_t>(0x87f0);
  const Words normal = (words & int16_t{0x0780}) != 0;
  return bits_as<Vec>((bits + int16_t{0x3c00}) & normal);
}
// Pairs in one register as floats.
inline void split_bf16(Vec words, Vec& even, Vec& odd) {
  const Int w = bits_as<Int>(words);
  even = bits_as<Vec>(w << 16);
  odd = bits_as<Vec>(w & Int{-65536, -65536, -65536, -65536});
}
inline void split_int16(Vec words, Vec& even, Vec& odd) {
  const Int w = bits_as<Int>(words);
  even = __builtin_convertvector(w << 16 >> 16, Vec);
  odd = __builtin_convertvector(w >> 16, Vec);
}
// Lane by lane the product of two pairs of int16, added up, in int32.
inline void add_products(Vec& sums, Vec words, Vec pair) {
  const Int a = bits_as<Int>(words);
  const Int b = bits_as<Int>(pair);
  sums =
      bits_as<Vec>(bits_as<Int>(sums) + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16));
}
inline Vec int32_to_floats(Vec v) {
  return __builtin_convertvector(bits_as<Int>(v), Vec);
}
// kLanes whole numbers below 2^22 to int16, rounded to the nearest.
inline void store_int16(float* p, Vec v) {
  const Int whole = __builtin_convertvector(round_even(v), Int);
  const HalfWords words = __builtin_convertvector(whole, HalfWords);
  memcpy(p, &words, sizeof words);
}
// The larger of a and |x|, as bits: what is no number exceeds all that are.
inline Vec max_magnitude(Vec a, Vec x) {
  const Int size = bits_as<Int>(x) & 0x7fffffff;
  const Int before = bits_as<Int>(a);
  return bits_as<Vec>(before > size ? before : size);
}
// Of the results of max_magnitude, and of any floats that are numbers.
inline float largest_magnitude(Vec v) {
  const Int x = bits_as<Int>(v);
  const int32_t low = x[0] > x[1] ? x[0] : x[1];
  const int32_t high = x[2] > x[3] ? x[2] : x[3];
  return __builtin_bit_cast(float, low > high ? low : high);
}
inline float largest_lane(Vec v) {
  const float low = v[0] > v[1] ? v[0] : v[1];
  const float high = v[2] > v[3] ? v[2] : v[3];
  return low > high ? low : high;
}
// p 2^n, n the whole number next to x; 0 for x below -126.
inline Vec times_power(Vec p, Vec n, Vec x) {
  const Vec power = power_of_two(max(splat(-127.0f), n));
  return where_less(x, splat(-126.0f), splat(0.0f), mul(p, power));
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
