#pragma once

#include "base/error.h"
#include "base/half.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

// Little-endian fields of a block. Blocks are unaligned: everything goes through memcpy.
namespace ingot::quant {

inline int u8_at(const std::byte* p, std::int64_t i) {
  return std::to_integer<int>(p[i]);
}

inline int i8_at(const std::byte* p, std::int64_t i) {
  return static_cast<std::int8_t>(std::to_integer<unsigned>(p[i]));
}

inline float f16_at(const std::byte* p) {
  std::uint16_t h;
  std::memcpy(&h, p, sizeof h);
  return f16_to_f32(h);
}

inline float f32_at(const std::byte* p) {
  float f;
  std::memcpy(&f, p, sizeof f);
  return f;
}

inline std::uint32_t u32_at(const std::byte* p) {
  std::uint32_t u;
  std::memcpy(&u, p, sizeof u);
  return u;
}

inline void put_f32(std::byte* p, float f) {
  std::memcpy(p, &f, sizeof f);
}

inline void put_u32(std::byte* p, std::uint32_t u) {
  std::memcpy(p, &u, sizeof u);
}

// A block's scale or minimum. Weights beyond its range cannot be stored; saying so beats infinity.
inline void put_f16(std::byte* p, float f, std::string_view format) {
  const std::uint16_t h = f32_to_f16(f);
  if ((h & 0x7c00u) == 0x7c00u)
    fail(ErrorCode::kBadInput, "[quant.{}] a block needs the scale {}, more than f16 holds", format,
         f);
  std::memcpy(p, &h, sizeof h);
}

inline void check_finite(const float* in, std::int64_t n, std::string_view format) {
  // x - x is 0 for finite x and NaN otherwise: one vectorised sum instead of a branch a value.
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += in[i] - in[i];
  if (sum != 0 || std::isnan(sum))
    fail(ErrorCode::kBadInput, "[quant.{}] a weight is NaN or infinite", format);
}

// Nearest integer, ties to even, for |x| < 2^22; unlike nearbyint it vectorises everywhere.
inline int round_to_int(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  const float shifted = x + kMagic;
  std::int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  return bits - 0x4b400000;
}

// The value with the largest magnitude, sign kept: it maps to the end of the range that two's
// complement has one more of.
inline float signed_absmax(const float* in, std::int64_t n) {
  float largest = 0;
  float value = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::fabs(in[i]) > largest) {
      largest = std::fabs(in[i]);
      value = in[i];
    }
  }
  return value;
}

inline float absmax(const float* in, std::int64_t n) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    largest = std::fabs(in[i]) > largest ? std::fabs(in[i]) : largest;
  return largest;
}

// 1/x as a multiplier, 0 where there is nothing to scale (also where the inverse would overflow).
inline float inverse_or_zero(float x) {
  const float inverse = 1.0f / x;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// The 6-bit scale and minimum of sub-block j (0..7) in the 12 packed bytes of q4_k and q5_k.
struct ScaleMin {
  int scale;
  int min;
};
inline ScaleMin k_scale_min(const std::byte* b, int j) {
  if (j < 4) return {u8_at(b, j) & 63, u8_at(b, j + 4) & 63};
  return {(u8_at(b, j + 4) & 15) | ((u8_at(b, j - 4) >> 6) << 4),
          (u8_at(b, j + 4) >> 4) | ((u8_at(b, j) >> 6) << 4)};
}

// The 16 values of iq4_nl and iq4_xs.
inline constexpr float kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

// The 16 values of e2m1, doubled to be whole.
inline constexpr float kE2m1Doubled[16] = {0,     1,  2,  3,  4,  6,  8,  12,
                                           -0.0f, -1, -2, -3, -4, -6, -8, -12};

}  // namespace ingot::quant
