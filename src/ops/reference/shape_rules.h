#pragma once

#include "base/error.h"
#include "ir/op_def.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

// What the shape rules of all ops share: reading operands, one at a time, with one clear refusal.
namespace ingot {

// The operands of one call. Everything that does not fit throws Error{kBadInput} "[op.name] ...".
class Operands {
 public:
  Operands(std::string_view op, std::span<const ValueType> types, std::size_t wanted);

  // A floating activation [rows, columns], columns being a number.
  const ValueType& rows(std::size_t i) const;
  // The same with this type.
  const ValueType& same(std::size_t i, const ValueType& type) const;
  // i32 of these dimensions.
  void integers(std::size_t i, const std::vector<Dim>& dims) const;
  // i32 of this rank.
  const ValueType& integers(std::size_t i, std::size_t rank) const;
  // A weight matrix [n, k] of any format, both being numbers.
  const ValueType& matrix(std::size_t i) const;
  // Plain f32, weight or not, of these dimensions: norm weights, biases, tables.
  void plain(std::size_t i, const std::vector<Dim>& dims) const;
  // Plain f32 of this rank, dimensions being numbers.
  const ValueType& plain(std::size_t i, std::size_t rank) const;
  // A KV state of a type that states may have.
  const StateSpec& state(std::size_t i) const;

  const ValueType& operator[](std::size_t i) const { return types_[i]; }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kBadInput,
                fmt::format("[op.{}] {}", op_, fmt::format(format, std::forward<Args>(args)...)));
  }
  template <typename... Args>
  void want(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) refuse(format, std::forward<Args>(args)...);
  }

  // a * b, both positive; refuses overflow and non-positive sizes.
  std::int64_t product(std::int64_t a, std::int64_t b) const;
  // A floating dtype by its name.
  DType float_dtype(std::string_view name) const;

  // The attributes, all and no others.
  template <typename Struct>
  Struct attributes(const Attrs& attrs) const {
    Struct result = read_attrs<Struct>(attrs);
    count_attributes(attrs, write_attrs(result).entries().size());
    return result;
  }
  void no_attributes(const Attrs& attrs) const { count_attributes(attrs, 0); }

 private:
  void count_attributes(const Attrs& attrs, std::size_t known) const;

  std::string_view op_;
  std::span<const ValueType> types_;
};

// Columns of a checked [rows, columns].
inline std::int64_t columns(const ValueType& type) {
  return type.dims.back().offset;
}

// [rows of `type`, columns] of `dtype`.
ValueType with_columns(const ValueType& type, DType dtype, std::int64_t columns);

}  // namespace ingot
