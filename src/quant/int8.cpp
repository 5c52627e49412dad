#include "quant/block_bytes.h"
#include "quant/weight_format.h"

#include <algorithm>

namespace ingot {

namespace {

using namespace quant;

// Row: f32 scale, k signed bytes in [-127, 127]. scale * q.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  const float scale = f32_at(row);
  for (std::int64_t i = 0; i < k; ++i) out[i] = scale * static_cast<float>(i8_at(row, 4 + i));
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  check_finite(in, k, "int8");
  const float scale = absmax(in, k) / 127;
  put_f32(row, scale);
  if (scale == 0) {
    std::fill(row + 4, row + 4 + k, std::byte{0});
    return;
  }
  // Division, not an inverse: a subnormal scale has none.
  for (std::int64_t i = 0; i < k; ++i) {
    const float steps = std::clamp(in[i] / scale, -127.0f, 127.0f);
    row[4 + i] = static_cast<std::byte>(round_to_int(steps));
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_int8;
const WeightFormat kWeightFormat_int8 = {
    .name = "int8",
    .bits_per_weight = 8,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k) + 4; },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
