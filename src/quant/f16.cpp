#include "base/half.h"
#include "quant/weight_format.h"

#include <cstring>

namespace ingot {

namespace {

void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t i = 0; i < k; ++i) {
    std::uint16_t h;
    std::memcpy(&h, row + 2 * i, sizeof h);
    out[i] = f16_to_f32(h);
  }
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  for (std::int64_t i = 0; i < k; ++i) {
    const std::uint16_t h = f32_to_f16(in[i]);
    std::memcpy(row + 2 * i, &h, sizeof h);
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_f16;
const WeightFormat kWeightFormat_f16 = {
    .name = "f16",
    .bits_per_weight = 16,
    .exact_dtype = true,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k) * 2; },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
