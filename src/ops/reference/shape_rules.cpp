#include "ops/reference/shape_rules.h"

namespace ingot {

namespace {

bool is_weight_or_state(const ValueType& type) {
  return type.format != nullptr || type.state != StateSpec{};
}

bool is_plain_f32(const ValueType& type) {
  return type.dtype == DType::kF32 && type.state == StateSpec{} &&
         (type.format == nullptr || type.format->name == "f32");
}

bool all_numbers(const ValueType& type) {
  for (const Dim& d : type.dims)
    if (!d.is_number() || d.offset < 1) return false;
  return true;
}

}  // namespace

Operands::Operands(std::string_view op, std::span<const ValueType> types, std::size_t wanted)
    : op_(op), types_(types) {
  want(types.size() == wanted, "{} operands, wanted {}", types.size(), wanted);
}

const ValueType& Operands::rows(std::size_t i) const {
  const ValueType& t = types_[i];
  const bool fits = !is_weight_or_state(t) && is_float(t.dtype) && t.dims.size() == 2 &&
                    t.dims[1].is_number() && t.dims[1].offset >= 1;
  want(fits, "operand {} is {}, wanted an activation [rows, columns]", i, to_string(t));
  return t;
}

const ValueType& Operands::same(std::size_t i, const ValueType& type) const {
  want(types_[i] == type, "operand {} is {}, wanted {}", i, to_string(types_[i]), to_string(type));
  return types_[i];
}

void Operands::integers(std::size_t i, const std::vector<Dim>& dims) const {
  ValueType wanted;
  wanted.dtype = DType::kI32;
  wanted.dims = dims;
  same(i, wanted);
}

const ValueType& Operands::integers(std::size_t i, std::size_t rank) const {
  const ValueType& t = types_[i];
  want(!is_weight_or_state(t) && t.dtype == DType::kI32 && t.dims.size() == rank,
       "operand {} is {}, wanted i32 of rank {}", i, to_string(t), rank);
  return t;
}

const ValueType& Operands::matrix(std::size_t i) const {
  const ValueType& t = types_[i];
  want(t.format != nullptr && t.dims.size() == 2 && all_numbers(t),
       "operand {} is {}, wanted a weight matrix [n, k]", i, to_string(t));
  return t;
}

void Operands::plain(std::size_t i, const std::vector<Dim>& dims) const {
  ValueType wanted;
  wanted.dims = dims;
  want(is_plain_f32(types_[i]) && types_[i].dims == dims, "operand {} is {}, wanted {}", i,
       to_string(types_[i]), to_string(wanted));
}

const ValueType& Operands::plain(std::size_t i, std::size_t rank) const {
  const ValueType& t = types_[i];
  want(is_plain_f32(t) && t.dims.size() == rank && all_numbers(t),
       "operand {} is {}, wanted f32 of rank {}", i, to_string(t), rank);
  return t;
}

const StateSpec& Operands::state(std::size_t i) const {
  want(types_[i].state.kv_heads > 0, "operand {} is {}, wanted a state", i, to_string(types_[i]));
  want(is_state_dtype(types_[i].state.dtype), "operand {} is {}, wanted f32, f16, bf16, i8 or e4m3",
       i, to_string(types_[i]));
  return types_[i].state;
}

std::int64_t Operands::product(std::int64_t a, std::int64_t b) const {
  std::int64_t result = 0;
  if (a < 1 || b < 1 || __builtin_mul_overflow(a, b, &result))
    refuse("sizes {} and {}, wanted positive ones whose product fits", a, b);
  return result;
}

DType Operands::float_dtype(std::string_view name) const {
  const auto dtype = dtype_from_name(name);
  if (!dtype || !is_float(*dtype)) refuse("dtype '{}', wanted a floating one", name);
  return *dtype;
}

void Operands::count_attributes(const Attrs& attrs, std::size_t known) const {
  want(attrs.entries().size() == known, "{} attributes, the op has {}", attrs.entries().size(),
       known);
}

ValueType with_columns(const ValueType& type, DType dtype, std::int64_t columns) {
  ValueType result;
  result.dtype = dtype;
  result.dims = {type.dims[0], Dim(columns)};
  return result;
}

}  // namespace ingot
