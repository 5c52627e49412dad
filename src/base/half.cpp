#include "base/half.h"

#include <algorithm>
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
  const std::uint8_t sign = std::signbit(f) ? 0x80 : 0;
  if (std::isnan(f)) return static_cast<std::uint8_t>(sign | 0x7f);
  const float a = std::fabs(f);
  if (a >= 448.0f) return static_cast<std::uint8_t>(sign | 0x7e);
  int exponent = 0;
  std::frexp(a, &exponent);                     // a = m * 2^exponent, m in [0.5, 1)
  const int unit = std::max(exponent - 4, -9);  // weight of the last mantissa bit
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(a, -unit)));
  // steps == 16 carries into the next exponent by itself.
  const int code = ((unit + 9) << 3) + steps;
  return static_cast<std::uint8_t>(sign | code);
}

float e5m2_to_f32(std::uint8_t v) {
  return f16_to_f32(static_cast<std::uint16_t>(v << 8));
}

}  // namespace ingot
