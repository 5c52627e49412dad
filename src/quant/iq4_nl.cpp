#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kBytes = 18;

// Block: f16 d, nibbles as in q4_0, each an index into the table. d * table[q].
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block);
    for (int j = 0; j < 16; ++j) {
      const int q = u8_at(block, 2 + j);
      y[j] = d * kIq4Values[q & 15];
      y[j + 16] = d * kIq4Values[q >> 4];
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_iq4_nl;
const WeightFormat kWeightFormat_iq4_nl = {
    .name = "iq4_nl",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
