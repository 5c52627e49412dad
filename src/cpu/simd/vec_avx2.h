#pragma once

// Eight floats. See vec_generic.h.
#include <immintrin.h>
#include <stdint.h>

namespace ingot::cpu {
namespace {

inline constexpr int kLanes = 8;
inline constexpr int kAccumulators = 12;
using Vec = __m256;

inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
inline Vec splat(float x) {
  return _mm256_set1_ps(x);
}
inline Vec mul_add(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline float mul_add(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline Vec add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec sub(Vec a, Vec b) {
  return _mm256_sub_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec div(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
inline Vec max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
inline Vec min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
inline Vec where_less(Vec a, Vec b, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline Vec lane_numbers() {
  return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}
inline Vec round_even(Vec x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec power_of_two(Vec n) {
  const __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(i, 23));
}
inline Vec int8_words(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(bytes));
}
inline Vec e4m3_words(const uint8_t* p) {
  const __m256i words = _mm256_slli_epi16(_mm256_castps_si256(int8_words(p)), 4);
  const __m256i bits = _mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(0x87f0)));
  const __m256i exponent = _mm256_and_si256(words, _mm256_set1_epi16(0x0780));
  const __m256i zero = _mm256_cmpeq_epi16(exponent, _mm256_setzero_si256());
  const __m256i all = _mm256_add_epi16(bits, _mm256_set1_epi16(0x3c00));
  return _mm256_castsi256_ps(_mm256_andnot_si256(zero, all));
}
inline void split_bf16(Vec words, Vec& even, Vec& odd) {
  const __m256i w = _mm256_castps_si256(words);
  even = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
  odd = _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32(-65536)));
}
inline void split_int16(Vec words, Vec& even, Vec& odd) {
  const __m256i w = _mm256_castps_si256(words);
  even = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(w, 16), 16));
  odd = _mm256_cvtepi32_ps(_mm256_srai_epi32(w, 16));
}
inline void add_products(Vec& sums, Vec words, Vec pair) {
  Vec products;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
      : "+x"(sums), "=&x"(products)
      : "x"(words), "x"(pair));
}
inline Vec int32_to_floats(Vec v) {
  return _mm256_cvtepi32_ps(_mm256_castps_si256(v));
}
inline void store_int16(float* p, Vec v) {
  const __m256i whole = _mm256_cvtps_epi32(v);
  const __m128i packed =
      _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}
inline Vec max_magnitude(Vec a, Vec x) {
  const __m256i size = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), size));
}
inline float largest_magnitude(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  __m128i top = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1));
  return __builtin_bit_cast(float, _mm_cvtsi128_si32(top));
}
inline float largest_lane(Vec v) {
  __m128 top = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  top = _mm_max_ps(top, _mm_shuffle_ps(top, top, 0x4e));
  top = _mm_max_ps(top, _mm_shuffle_ps(top, top, 0xb1));
  return _mm_cvtss_f32(top);
}
// p 2^n, n the whole number next to x; 0 for x below -126.
inline Vec times_power(Vec p, Vec n, Vec x) {
  const Vec power = power_of_two(max(splat(-127.0f), n));
  return where_less(x, splat(-126.0f), splat(0.0f), mul(p, power));
}
inline Vec load_bf16(const uint16_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
inline void store_bf16(uint16_t* p, Vec v) {
  const __m256i u = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i h = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}

}  // namespace
}  // namespace ingot::cpu
