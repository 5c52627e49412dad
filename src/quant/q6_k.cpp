#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kBytes = 210;

// Block: 128 bytes of low nibbles, 64 bytes of 2 high bits, 16 signed scales, f16 d. Half h has 64
// of the low bytes and 32 of the high ones; its group g of 32 values takes low nibbles (g < 2) or
// high ones of bytes 32 (g % 2) + l, and bits 2g.. of high byte l. d * scale * (q - 32).
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block + 208);
    for (int sub = 0; sub < 16; ++sub) {
      const int half = sub / 8;
      const int group = sub / 2 % 4;
      const float scale = d * static_cast<float>(i8_at(block, 192 + sub));
      const std::byte* low = block + half * 64 + group % 2 * 32 + sub % 2 * 16;
      const std::byte* high = block + 128 + half * 32 + sub % 2 * 16;
      for (int l = 0; l < 16; ++l) {
        const int q = (u8_at(low, l) >> (group / 2 * 4) & 15) | (u8_at(high, l) >> (group * 2) & 3)
                                                                    << 4;
        y[sub * 16 + l] = scale * static_cast<float>(q - 32);
      }
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q6_k;
const WeightFormat kWeightFormat_q6_k = {
    .name = "q6_k",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
