#include "tensor/dtype.h"

#include "base/check.h"

#include <array>

namespace ingot {

namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
  bool is_float;
};

constexpr std::array<Row, 10> kRows = {{
    {DType::kF32, "f32", 4, true},
    {DType::kF16, "f16", 2, true},
    {DType::kBF16, "bf16", 2, true},
    {DType::kE4M3, "e4m3", 1, true},
    {DType::kE5M2, "e5m2", 1, true},
    {DType::kI8, "i8", 1, false},
    {DType::kU8, "u8", 1, false},
    {DType::kI32, "i32", 4, false},
    {DType::kI64, "i64", 8, false},
    {DType::kBool, "bool", 1, false},
}};

const Row& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  check(index < kRows.size() && kRows[index].dtype == dtype, "dtype outside its table");
  return kRows[index];
}

}  // namespace

std::size_t dtype_bytes(DType dtype) {
  return row(dtype).bytes;
}

std::string_view dtype_name(DType dtype) {
  return row(dtype).name;
}

bool is_float(DType dtype) {
  return row(dtype).is_float;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.dtype;
  return std::nullopt;
}

}  // namespace ingot
