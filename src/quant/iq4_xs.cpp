#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kBytes = 136;

// Block: f16 d, u16 of 2 high scale bits a sub-block, 4 bytes of low scale nibbles, 128 bytes: 16 a
// sub-block of 32, nibbles as in iq4_nl. d * (scale - 32) * table[q].
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    const int high_bits = u8_at(block, 2) | u8_at(block, 3) << 8;
    for (int sub = 0; sub < 8; ++sub) {
      const int low = u8_at(block, 4 + sub / 2) >> (sub % 2 * 4) & 15;
      const int scale = (low | (high_bits >> (2 * sub) & 3) << 4) - 32;
      const float step = d * static_cast<float>(scale);
      const std::byte* q = block + 8 + sub * 16;
      for (int j = 0; j < 16; ++j) {
        y[sub * 32 + j] = step * kIq4Values[u8_at(q, j) & 15];
        y[sub * 32 + j + 16] = step * kIq4Values[u8_at(q, j) >> 4];
      }
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_iq4_xs;
const WeightFormat kWeightFormat_iq4_xs = {
    .name = "iq4_xs",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
