#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kBytes = 176;

// Block: f16 d, f16 dmin, 12 bytes of scales as in q4_k, 32 bytes of fifth bits (bit s of byte l is
// sub-block s, value l), 128 bytes of nibbles as in q4_k. d * scale * q - dmin * min.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    const float dmin = f16_at(block + 2);
    for (int sub = 0; sub < 8; ++sub) {
      const auto [scale, min] = k_scale_min(block + 4, sub);
      const float step = d * static_cast<float>(scale);
      const float base = dmin * static_cast<float>(min);
      const std::byte* q = block + 48 + sub / 2 * 32;
      const int shift = sub % 2 * 4;
      for (int l = 0; l < 32; ++l) {
        const int value = (u8_at(q, l) >> shift & 15) | (u8_at(block, 16 + l) >> sub & 1) << 4;
        y[sub * 32 + l] = step * static_cast<float>(value) - base;
      }
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q5_k;
const WeightFormat kWeightFormat_q5_k = {
    .name = "q5_k",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
