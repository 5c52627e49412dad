#include "tensor/shape.h"

#include "base/check.h"

namespace ingot {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  check(rank_ <= kMaxRank, "a tensor has at most four dimensions");
  for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
}

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t d : dims()) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::optional<std::int64_t> checked_product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) return std::nullopt;
  return n;
}

}  // namespace ingot
