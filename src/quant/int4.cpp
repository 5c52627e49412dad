#include "quant/block_bytes.h"
#include "quant/weight_format.h"

#include <algorithm>

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kBytes = 34;

// Ingot's own 4-bit format: symmetric, one scale for 64 values (4.25 bits a weight). Block: f16 d,
// 32 bytes: low nibble of byte j is value j, high nibble value j + 32. d * (q - 8).
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    for (int j = 0; j < 32; ++j) {
      const int q = u8_at(block, 2 + j);
      y[j] = d * static_cast<float>((q & 15) - 8);
      y[j + 32] = d * static_cast<float>((q >> 4) - 8);
    }
  }
}

int code(float x, float inverse) {
  return std::clamp(round_to_int(x * inverse), -8, 7) + 8;
}

void quantize(const float* in, std::int64_t k, std::byte* row) {
  check_finite(in, k, "int4");
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const float* x = in + b * kBlock;
    std::byte* block = row + b * kBytes;
    put_f16(block, signed_absmax(x, kBlock) / -8, "int4");
    // The codes are chosen for the scale as stored, not as wished for.
    const float inverse = inverse_or_zero(f16_at(block));
    for (int j = 0; j < 32; ++j)
      block[2 + j] = static_cast<std::byte>(code(x[j], inverse) | code(x[j + 32], inverse) << 4);
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_int4;
const WeightFormat kWeightFormat_int4 = {
    .name = "int4",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = quantize,
};

}  // namespace ingot
