#include "quant/weight_format.h"

#include <cstring>

namespace ingot {

extern const WeightFormat kWeightFormat_f32;
const WeightFormat kWeightFormat_f32 = {
    .name = "f32",
    .bits_per_weight = 32,
    .exact_dtype = true,
    .row_bytes = [](std::int64_t k) { return static_cast<std::size_t>(k) * 4; },
    .dequantize_row = [](const std::byte* row, std::int64_t k,
                         float* out) { std::memcpy(out, row, static_cast<std::size_t>(k) * 4); },
    .quantize_row = [](const float* in, std::int64_t k,
                       std::byte* row) { std::memcpy(row, in, static_cast<std::size_t>(k) * 4); },
};

}  // namespace ingot
