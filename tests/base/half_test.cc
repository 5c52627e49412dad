#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace ingot {
namespace {

// What the bits of a small float mean, from the definition: sign, exponent, mantissa, bias.
float meaning(unsigned bits, int exponent_bits, int mantissa_bits) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
  double value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  if (exponent > 0)
    value = std::ldexp((1u << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return static_cast<float>(negative ? -value : value);
}

TEST(Half, F16ToF32IsExactForEveryValue) {
  for (unsigned h = 0; h < 65536; ++h) {
    const float got = f16_to_f32(static_cast<std::uint16_t>(h));
    if ((h & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(got), (h & 0x3ff) != 0);
      EXPECT_EQ(std::signbit(got), h >= 0x8000);
    } else {
      ASSERT_EQ(std::bit_cast<unsigned>(got), std::bit_cast<unsigned>(meaning(h, 5, 10))) << h;
    }
  }
}

// Between neighbours a < b: below the middle a, above it b, at the middle the even one.
template <typename ToFloat, typename FromFloat>
void expect_nearest_even(unsigned largest, ToFloat to_float, FromFloat from_float) {
  for (unsigned h = 0; h < largest; ++h) {
    const float a = to_float(h);
    const float b = to_float(h + 1);
    const float middle = a + (b - a) / 2;  // exact: f32 has bits to spare
    ASSERT_EQ(from_float(a), h);
    ASSERT_EQ(from_float(middle), h % 2 == 0 ? h : h + 1) << "between " << a << " and " << b;
    ASSERT_EQ(from_float(std::nextafter(middle, a)), h);
    ASSERT_EQ(from_float(std::nextafter(middle, b)), h + 1);
    ASSERT_EQ(from_float(-middle) & (largest < 128 ? 0x7fu : 0x7fffu), h % 2 == 0 ? h : h + 1);
  }
}

TEST(Half, F32ToF16RoundsToNearestEven) {
  expect_nearest_even(
      0x7bff, [](unsigned h) { return f16_to_f32(static_cast<std::uint16_t>(h)); },
      [](float f) { return unsigned{f32_to_f16(f)}; });
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Half, Bf16RoundsToNearestEven) {
  for (unsigned h = 0; h < 65536; ++h) {
    const float f = bf16_to_f32(static_cast<std::uint16_t>(h));
    ASSERT_EQ(std::bit_cast<unsigned>(f), h << 16);
    if (std::isnan(f))
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(f))));
    else
      ASSERT_EQ(f32_to_bf16(f), h);
  }
  for (unsigned h = 0; h < 0x7f7f; ++h) {
    const auto at = [&](unsigned low) { return f32_to_bf16(std::bit_cast<float>(h << 16 | low)); };
    ASSERT_EQ(at(0x7fff), h);
    ASSERT_EQ(at(0x8000), h % 2 == 0 ? h : h + 1);
    ASSERT_EQ(at(0x8001), h + 1);
  }
  // A NaN whose payload lies in the lost bits alone must not turn into infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Half, E4m3IsOcps) {
  for (unsigned v = 0; v < 256; ++v) {
    const float got = e4m3_to_f32(static_cast<std::uint8_t>(v));
    if ((v & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(got));
    else
      ASSERT_EQ(std::bit_cast<unsigned>(got), std::bit_cast<unsigned>(meaning(v, 4, 3))) << v;
  }
  expect_nearest_even(
      0x7e, [](unsigned v) { return e4m3_to_f32(static_cast<std::uint8_t>(v)); },
      [](float f) { return unsigned{f32_to_e4m3(f)}; });
  EXPECT_EQ(e4m3_to_f32(0x7e), 448);
  EXPECT_EQ(f32_to_e4m3(1e9f), 0x7e);
  EXPECT_EQ(f32_to_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(f32_to_e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
}

TEST(Half, E5m2ReadsAsIeee) {
  for (unsigned v = 0; v < 256; ++v) {
    const float got = e5m2_to_f32(static_cast<std::uint8_t>(v));
    if ((v & 0x7c) == 0x7c)
      EXPECT_EQ(std::isinf(got), (v & 3) == 0);
    else
      ASSERT_EQ(got, meaning(v, 5, 2)) << v;
  }
}

}  // namespace
}  // namespace ingot
