#include "quant/block_bytes.h"
#include "quant/weight_format.h"

namespace ingot {

namespace {

using namespace quant;

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kBytes = 36;

// Block: 4 scales in unsigned e4m3 (0x7f reads as 0), then 8 bytes for each 16 values: low nibble
// value j, high nibble value j + 8, e2m1 numbers. scale * value.
void dequantize(const std::byte* row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b) {
    const std::byte* block = row + b * kBytes;
    float* y = out + b * kBlock;
    for (int sub = 0; sub < 4; ++sub) {
      const int code = u8_at(block, sub) & 0x7f;
      const float scale = code == 0x7f ? 0 : e4m3_to_f32(static_cast<std::uint8_t>(code)) / 2;
      const std::byte* q = block + 4 + sub * 8;
      for (int j = 0; j < 8; ++j) {
        y[sub * 16 + j] = scale * kE2m1Doubled[u8_at(q, j) & 15];
        y[sub * 16 + j + 8] = scale * kE2m1Doubled[u8_at(q, j) >> 4];
      }
    }
  }
}

}  // namespace

extern const WeightFormat kWeightFormat_nvfp4;
const WeightFormat kWeightFormat_nvfp4 = {
    .name = "nvfp4",
    .block = kBlock,
    .bits_per_weight = 8.0 * kBytes / kBlock,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k / kBlock * kBytes); },
    .dequantize_row = dequantize,
    .quantize_row = nullptr,
};

}  // namespace ingot
