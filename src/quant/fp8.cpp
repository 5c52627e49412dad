#include "quant/block_bytes.h"
#include "quant/weight_format.h"

#include <algorithm>
#include <array>

namespace ingot {

namespace {

using namespace quant;

constexpr float kLargest = 448;  // of OCP e4m3

const std::array<float, 256>& values() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t{};
    for (unsigned i = 0; i < 256; ++i) t[i] = e4m3_to_f32(static_cast<std::uint8_t>(i));
    return t;
  }();
  return table;
}

// Row: f32 scale, k bytes of OCP e4m3. scale * value.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  const auto& table = values();
  const float scale = f32_at(row);
  for (std::int64_t i = 0; i < k; ++i)
    out[i] = scale * table[std::to_integer<std::size_t>(row[4 + i])];
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  check_finite(in, k, "fp8");
  const float scale = absmax(in, k) / kLargest;
  put_f32(row, scale);
  if (scale == 0) {
    std::fill(row + 4, row + 4 + k, std::byte{0});
    return;
  }
  for (std::int64_t i = 0; i < k; ++i) row[4 + i] = std::byte{f32_to_e4m3(in[i] / scale)};
}

}  // namespace

extern const WeightFormat kWeightFormat_fp8;
const WeightFormat kWeightFormat_fp8 = {
    .name = "fp8",
    .bits_per_weight = 8,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k) + 4; },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
