#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kBytes = 110;

// Sub-block i has a 6-bit scale: 4 low bits in bytes 0-7 (low nibbles first), 2 high bits in bytes
// 8-11.
int scale_of(const std::byte* packed, int i) {
  const int low = i < 8 ? u8_at(packed, i) & 15 : u8_at(packed, i - 8) >> 4;
  const int high = u8_at(packed, 8 + i % 4) >> (2 * (i / 4)) & 3;
  return (low | high << 4) - 32;
}

// Block: 32 bytes of third bits (bit of group g = 4 h + s), 64 bytes of 2-bit quants ordered as in
// q2_k, 12 bytes of scales, f16 d. The third bit, when clear, subtracts 4. d * scale * q.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    const float d = f16_at(block + 108);
    for (int sub = 0; sub < 16; ++sub) {
      const float scale = d * static_cast<float>(scale_of(block + 96, sub));
      const std::byte* q = block + 32 + sub / 8 * 32 + sub % 2 * 16;
      const std::byte* high = block + sub % 2 * 16;
      const int shift = sub / 2 % 4 * 2;
      const int mask = 1 << (sub / 2);
      for (int l = 0; l < 16; ++l) {
        const int value = (u8_at(q, l) >> shift & 3) - (u8_at(high, l) & mask ? 0 : 4);
        y[sub * 16 + l] = scale * static_cast<float>(value);
      }
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_q3_k;
const WeightFormat kWeightFormat_q3_k = {
    .name = "q3_k",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
