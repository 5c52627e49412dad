#include "quant/block_bytes.h"
#include "quant/weight_format.h"

#include <algorithm>

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kBytes = 18;

// Block: f16 d, 16 bytes: low nibble of byte j is value j, high nibble value j + 16. d * (q - 8).
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    for (int j = 0; j < 16; ++j) {
      const int q = u8_at(block, 2 + j);
      y[j] = d * static_cast<float>((q & 15) - 8);
      y[j + 16] = d * static_cast<float>((q >> 4) - 8);
    }
  }
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  check_finite(in, k, "q4_0");
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const float* x = in + b * kBlock;
    std::byte* block = row + b * kBytes;
    const float d = signed_absmax(x, kBlock) / -8;
    const float inverse = inverse_or_zero(d);
    put_f16(block, d, "q4_0");
    for (int j = 0; j < 16; ++j) {
      const int low = std::min(15, static_cast<int>(x[j] * inverse + 8.5f));
      const int high = std::min(15, static_cast<int>(x[j + 16] * inverse + 8.5f));
      block[2 + j] = static_cast<std::byte>(low | high << 4);
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q4_0;
const WeightFormat kWeightFormat_q4_0 = {
    .name = "q4_0",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
