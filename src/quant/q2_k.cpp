#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kBytes = 84;
constexpr std::int64_t kQuants = 16;  // after the 16 scale bytes

// Block: 16 bytes of scale (low nibble) and minimum (high) a sub-block of 16 values, 64 bytes of
// 2-bit quants, f16 d, f16 dmin. Half h of the block keeps its quants in 32 bytes: bits 2s.. of
// byte l hold value 128 h + 32 s + l. d * scale * q - dmin * min.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block + 80);
    const float dmin = f16_at(block + 82);
    for (int sub = 0; sub < 16; ++sub) {
      const float scale = d * static_cast<float>(u8_at(block, sub) & 15);
      const float min = dmin * static_cast<float>(u8_at(block, sub) >> 4);
      const std::byte* q = block + kQuants + sub / 8 * 32 + sub % 2 * 16;
      const int shift = sub / 2 % 4 * 2;
      for (int l = 0; l < 16; ++l)
        y[sub * 16 + l] = scale * static_cast<float>(u8_at(q, l) >> shift & 3) - min;
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q2_k;
const WeightFormat kWeightFormat_q2_k = {
    .name = "q2_k",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
