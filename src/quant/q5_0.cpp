#include "quant/block_bytes.h"
#include "quant/weight_format.h"

#include <algorithm>

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kBytes = 22;

// Block: f16 d, u32 fifth bits (bit i of value i), nibbles as in q4_0. d * (q - 16).
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    const std::uint32_t high_bits = u32_at(block + 2);
    for (int j = 0; j < 16; ++j) {
      const int q = u8_at(block, 6 + j);
      const int low = (q & 15) | static_cast<int>(high_bits >> j & 1) << 4;
      const int high = (q >> 4) | static_cast<int>(high_bits >> (j + 16) & 1) << 4;
      y[j] = d * static_cast<float>(low - 16);
      y[j + 16] = d * static_cast<float>(high - 16);
    }
  }
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  check_finite(in, k, "q5_0");
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const float* x = in + b * kBlock;
    std::byte* block = row + b * kBytes;
    const float d = signed_absmax(x, kBlock) / -16;
    const float inverse = inverse_or_zero(d);
    put_f16(block, d, "q5_0");
    std::uint32_t high_bits = 0;
    for (int j = 0; j < 16; ++j) {
      const int low = std::min(31, static_cast<int>(x[j] * inverse + 16.5f));
      const int high = std::min(31, static_cast<int>(x[j + 16] * inverse + 16.5f));
      block[6 + j] = static_cast<std::byte>((low & 15) | (high & 15) << 4);
      high_bits |= static_cast<std::uint32_t>(low >> 4) << j;
      high_bits |= static_cast<std::uint32_t>(high >> 4) << (j + 16);
    }
    put_u32(block + 2, high_bits);
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q5_0;
const WeightFormat kWeightFormat_q5_0 = {
    .name = "q5_0",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
