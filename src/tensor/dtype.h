#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot {

// Element types of plain (not block-quantised) tensors. Weight formats are in quant/.
enum class DType : std::uint8_t { kF32, kF16, kBF16, kE4M3, kE5M2, kI8, kU8, kI32, kI64, kBool };

std::size_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // "f32", "bf16", ...
std::optional<DType> dtype_from_name(std::string_view name);
bool is_float(DType dtype);

}  // namespace ingot
