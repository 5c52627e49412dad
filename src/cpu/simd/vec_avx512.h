#pragma once

// Sixteen floats. See vec_generic.h.
#include <immintrin.h>
#include <stdint.h>

namespace ingot::cpu {
namespace {

inline constexpr int kLanes = 16;
inline constexpr int kAccumulators = 24;
using Vec = __m512;

inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
inline Vec splat(float x) {
  return _mm512_set1_ps(x);
}
inline Vec mul_add(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline float mul_add(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline Vec add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec sub(Vec a, Vec b) {
  return _mm512_sub_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec div(Vec a, Vec b) {
  return _mm512_div_ps(a, b);
}
inline Vec max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
inline Vec min(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
inline Vec where_less(Vec a, Vec b, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
inline Vec lane_numbers() {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
inline Vec round_even(Vec x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec power_of_two(Vec n) {
  const __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(i, 23));
}
// 2 * kLanes int8 as pairs of int16, and e4m3 without subnormals as pairs of bf16.
inline Vec int8_words(const uint8_t* p) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_cvtepi8_epi16(bytes));
}
inline Vec e4m3_words(const uint8_t* p) {
  const __m512i words = _mm512_slli_epi16(_mm512_castps_si512(int8_words(p)), 4);
  const __m512i bits = _mm512_and_si512(words, _mm512_set1_epi16(static_cast<short>(0x87f0)));
  const __mmask32 normal = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x0780));
  return _mm512_castsi512_ps(_mm512_maskz_add_epi16(normal, bits, _mm512_set1_epi16(0x3c00)));
}
// Pairs in one register as floats.
inline void split_bf16(Vec words, Vec& even, Vec& odd) {
  const __m512i w = _mm512_castps_si512(words);
  even = _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
  odd = _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32(-65536)));
}
inline void split_int16(Vec words, Vec& even, Vec& odd) {
  const __m512i w = _mm512_castps_si512(words);
  even = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(w, 16), 16));
  odd = _mm512_cvtepi32_ps(_mm512_srai_epi32(w, 16));
}
// Lane by lane the product of two pairs of int16, added up, in int32.
inline void add_products(Vec& sums, Vec words, Vec pair) {
  Vec products;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
      : "+v"(sums), "=&v"(products)
      : "v"(words), "v"(pair));
}
inline Vec int32_to_floats(Vec v) {
  return _mm512_cvtepi32_ps(_mm512_castps_si512(v));
}
// kLanes whole numbers to int16, rounded to the nearest.
inline void store_int16(float* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v)));
}
// The larger of a and |x|, as bits: what is no number exceeds all that are.
inline Vec max_magnitude(Vec a, Vec x) {
  const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), size));
}
// Of the results of max_magnitude, and of any floats that are numbers.
inline float largest_magnitude(Vec v) {
  return __builtin_bit_cast(float, _mm512_reduce_max_epi32(_mm512_castps_si512(v)));
}
inline float largest_lane(Vec v) {
  return _mm512_reduce_max_ps(v);
}
// p 2^n, n the whole number next to x; 0 for x below -126.
inline Vec times_power(Vec p, Vec n, Vec x) {
  // What is no number passes.
  const __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(kept, p, n);
}
inline Vec load_bf16(const uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
inline void store_bf16(uint16_t* p, Vec v) {
  const __m512i u = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
  const __m512i h = _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, up, quiet), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(h));
}

}  // namespace
}  // namespace ingot::cpu
