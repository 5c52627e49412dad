#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kBytes = 17;

// Block (OCP microscaling): one byte of exponent, nibbles as in q4_0, each an e2m1 number.
// 2^(e - 127) * value.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    // The table holds doubled values, so the scale is halved.
    const float scale = std::ldexp(1.0f, u8_at(block, 0) - 128);
    for (int j = 0; j < 16; ++j) {
      y[j] = scale * kE2m1Doubled[u8_at(block, 1 + j) & 15];
      y[j + 16] = scale * kE2m1Doubled[u8_at(block, 1 + j) >> 4];
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_mxfp4;
const WeightFormat kWeightFormat_mxfp4 = {
    .name = "mxfp4",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
