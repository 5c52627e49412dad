#pragma once

#include <bit>
#include <cstdint>

// Storage conversions of the 16- and 8-bit floating types. Round to nearest even; NaN stays NaN.
namespace ingot {

inline float bf16_to_f32(std::uint16_t h) {
  return std::bit_cast<float>(std::uint32_t{h} << 16);
}

inline std::uint16_t f32_to_bf16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
  return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

inline float f16_to_f32(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1fu;
  const std::uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
  return sign ? -magnitude : magnitude;
}

inline std::uint16_t f32_to_f16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (a >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (a < 0x38800000u) {  // below 2^-14: subnormal
    const float scaled =
        std::bit_cast<float>(a) + 0.5f;  // adds at 2^-1: ulp is 2^-24, ties to even
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
  }
  const std::uint32_t rounded = a - 0x38000000u + 0xfffu + ((a >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

// OCP e4m3 (fn): no infinities, 0x7f is NaN, largest finite 448.
float e4m3_to_f32(std::uint8_t v);
std::uint8_t f32_to_e4m3(float f);  // saturates to +-448
// OCP e5m2: infinities and NaN as IEEE.
float e5m2_to_f32(std::uint8_t v);

}  // namespace ingot
