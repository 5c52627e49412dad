#include "ir/type.h"

#include "base/check.h"
#include "base/error.h"

#include <fmt/core.h>

namespace ingot {

namespace {

constexpr std::array<char, kSymbols> kLetters = {'1', 'T', 'S', 'R', 'P'};

}  // namespace

std::string to_string(const Dim& dim) {
  if (dim.is_number()) return std::to_string(dim.at(DimValues{}));
  std::string text;
  if (dim.scale != 1) text += std::to_string(dim.scale);
  text += kLetters[static_cast<std::size_t>(dim.symbol)];
  if (dim.offset > 0) text += "+";
  if (dim.offset != 0) text += std::to_string(dim.offset);
  return text;
}

Shape ValueType::at(const DimValues& v) const {
  check(dims.size() <= Shape::kMaxRank, "a value has at most four dimensions");
  std::array<std::int64_t, Shape::kMaxRank> numbers{};
  for (std::size_t i = 0; i < dims.size(); ++i) numbers[i] = dims[i].at(v);
  return Shape(std::span<const std::int64_t>(numbers.data(), dims.size()));
}

std::size_t ValueType::bytes_at(const DimValues& v) const {
  check(format == nullptr && state == StateSpec{}, "bytes_at of a weight or state");
  const Shape shape = at(v);
  const auto elements = checked_product(shape.dims());
  std::size_t bytes = 0;
  if (!elements ||
      __builtin_mul_overflow(static_cast<std::size_t>(*elements), dtype_bytes(dtype), &bytes))
    fail(ErrorCode::kBadInput, "[ir.type] {}{} is larger than memory", dtype_name(dtype),
         to_string(shape));
  return bytes;
}

bool is_state_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         state_scale_bytes(dtype) > 0;
}

std::size_t state_scale_bytes(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kE4M3 ? sizeof(float) : 0;
}

std::size_t state_token_bytes(const StateSpec& spec) {
  const auto head = static_cast<std::size_t>(spec.head_dim) * dtype_bytes(spec.dtype) +
                    state_scale_bytes(spec.dtype);
  return 2 * static_cast<std::size_t>(spec.kv_heads) * head;
}

std::string to_string(const ValueType& type) {
  if (type.state.kv_heads > 0)
    return fmt::format(
        "kv(heads={}, dim={}, dtype={}, window={}{})", type.state.kv_heads, type.state.head_dim,
        dtype_name(type.state.dtype), type.state.window,
        type.state.sink_tokens > 0 ? fmt::format(", sink_tokens={}", type.state.sink_tokens) : "");
  std::string text(type.format ? type.format->name : dtype_name(type.dtype));
  text += "[";
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) text += ",";
    text += to_string(type.dims[i]);
  }
  return text + "]";
}

}  // namespace ingot
