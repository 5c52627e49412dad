#include "ops/reference/kv_row.h"

#include "base/check.h"
#include "base/half.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ingot {

namespace {

constexpr float kZeroRow = 1e-30f;
constexpr std::uint8_t kSmallestNormal = 0x08;

float largest_code(DType dtype) {
  check(dtype == DType::kI8 || dtype == DType::kE4M3, "an 8-bit KV state is i8 or e4m3");
  return dtype == DType::kI8 ? 127.0f : 448.0f;
}

std::uint8_t code_of(DType dtype, float x) {
  if (dtype == DType::kI8)
    return static_cast<std::uint8_t>(static_cast<std::int8_t>(std::nearbyint(x)));
  const std::uint8_t code = f32_to_e4m3(x);
  return (code & 0x7f) < kSmallestNormal ? std::uint8_t{0} : code;
}

}  // namespace

float encode_kv_row(DType dtype, std::span<const float> row, std::span<std::uint8_t> codes) {
  check(codes.size() == row.size(), "a code for every value");
  const float top = largest_code(dtype);
  float largest = 0;
  bool finite = true;
  for (const float x : row) {
    finite &= std::isfinite(x);
    largest = std::max(largest, std::fabs(x));
  }
  if (!finite || largest < kZeroRow) {
    std::fill(codes.begin(), codes.end(), std::uint8_t{0});
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float by = top / largest;
  for (std::size_t i = 0; i < row.size(); ++i) codes[i] = code_of(dtype, row[i] * by);
  return largest / top;
}

void decode_kv_row(DType dtype, std::span<const std::uint8_t> codes, float scale,
                   std::span<float> row) {
  for (std::size_t i = 0; i < codes.size(); ++i)
    row[i] = scale * (dtype == DType::kI8 ? static_cast<float>(static_cast<std::int8_t>(codes[i]))
                                          : e4m3_to_f32(codes[i]));
}

void round_kv_row(DType dtype, std::span<float> row) {
  std::vector<std::uint8_t> codes(row.size());
  const float scale = encode_kv_row(dtype, row, codes);
  decode_kv_row(dtype, codes, scale, row);
}

}  // namespace ingot
