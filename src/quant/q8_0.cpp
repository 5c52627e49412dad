#include "quant/block_bytes.h"
#include "quant/weight_format.h"

#include <algorithm>

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kBytes = 34;

// Block: f16 d, 32 signed bytes. d * q.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(i8_at(block, 2 + j));
  }
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  check_finite(in, k, "q8_0");
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const float* x = in + b * kBlock;
    std::byte* block = row + b * kBytes;
    const float d = absmax(x, kBlock) / 127;
    const float inverse = inverse_or_zero(d);
    put_f16(block, d, "q8_0");
    for (int j = 0; j < 32; ++j) {
      const auto q = static_cast<int>(std::round(x[j] * inverse));
      block[2 + j] = static_cast<std::byte>(std::clamp(q, -127, 127));
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q8_0;
const WeightFormat kWeightFormat_q8_0 = {
    .name = "q8_0",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
