#include "ops/reference/sample.h"

#include "base/check.h"

#include <cmath>
#include <numeric>
#include <random>

namespace ingot::sample {

namespace {

OperandCase weight(std::vector<Dim> dims, Fill fill) {
  OperandCase result;
  result.type.dims = std::move(dims);
  result.type.format = &weight_format("f32");
  result.fill = fill;
  return result;
}

}  // namespace

OperandCase activation(std::int64_t columns, DType dtype) {
  OperandCase result;
  result.type.dtype = dtype;
  result.type.dims = {Symbol::kTokens, columns};
  return result;
}

OperandCase matrix(std::int64_t n, std::int64_t k) {
  return weight({n, k}, Fill::kWeight);
}

OperandCase vector(std::int64_t n, Fill fill) {
  return weight({n}, fill);
}

OperandCase frequencies(std::int64_t rows, std::int64_t pairs) {
  OperandCase result = weight({rows, pairs}, Fill::kGiven);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double exponent = static_cast<double>(i) / static_cast<double>(pairs);
      result.given_f.push_back(
          static_cast<float>(std::pow(10000.0, -exponent) / static_cast<double>(r + 1)));
    }
  return result;
}

OperandCase indices(std::vector<Dim> dims, std::int64_t limit) {
  OperandCase result;
  result.type.dtype = DType::kI32;
  result.type.dims = std::move(dims);
  result.fill = Fill::kIndex;
  result.limit = limit;
  return result;
}

OperandCase given(std::vector<Dim> dims, std::vector<std::int32_t> values) {
  OperandCase result = indices(std::move(dims), 0);
  result.fill = Fill::kGiven;
  result.given = std::move(values);
  return result;
}

OperandCase state(std::int64_t kv_heads, std::int64_t head_dim, DType dtype) {
  return state({.kv_heads = kv_heads, .head_dim = head_dim, .dtype = dtype});
}

OperandCase state(const StateSpec& spec) {
  OperandCase result;
  result.type.dtype = spec.dtype;
  result.type.state = spec;
  return result;
}

std::vector<std::int32_t> distinct_slots(std::int64_t count, std::int64_t limit) {
  check(count <= limit, "more tokens than slots");
  std::vector<std::int32_t> slots(static_cast<std::size_t>(limit));
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937 random(7);
  for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[random() % i]);
  slots.resize(static_cast<std::size_t>(count));
  return slots;
}

}  // namespace ingot::sample
