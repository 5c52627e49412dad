#include "base/half.h"

#include <bit>
#include <cmath>
#include <limits>

namespace ingot {

float e4m3_to_f32(std::uint8_t v) {
  const int exponent = (v >> 3) & 15;
  const int mantissa = v & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return v & 0x80 ? -magnitude : magnitude;
}

std::uint8_t f32_to_e4m3(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (u >> 24) & 0x80u;
  const std::uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (a >= 0x43e00000u) return static_cast<std::uint8_t>(sign | 0x7eu);  // 448 and more
  if (a < 0x3c800000u) {                                                 // below 2^-6: subnormal
    const float scaled = std::bit_cast<float>(a) + 16384.0f;  // ulp is 2^-9 there, ties to even
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x46800000u));
  }
  const std::uint32_t rounded = a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u);
  return static_cast<std::uint8_t>(sign | (rounded >> 20));
}

float e5m2_to_f32(std::uint8_t v) {
  return f16_to_f32(static_cast<std::uint16_t>(v << 8));
}

}  // namespace ingot
