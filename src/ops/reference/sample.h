#pragma once

#include "ir/op_def.h"

#include <cstdint>
#include <utility>
#include <vector>

// Short spellings for the sample cases of ops.
namespace ingot::sample {

struct Sizes {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t rows = 0;
  std::int64_t pages = 0;
};
inline DimValues dims(const Sizes& s) {
  DimValues v;
  v[Symbol::kTokens] = s.tokens;
  v[Symbol::kSequences] = s.sequences;
  v[Symbol::kRows] = s.rows;
  v[Symbol::kPages] = s.pages;
  return v;
}

// The device's own activation type [T, columns], normal numbers.
OperandCase activation(std::int64_t columns, DType dtype = DType::kBF16);
// f32 weight [n, k] that stands for every format.
OperandCase matrix(std::int64_t n, std::int64_t k);
// f32 weight [n]: near one (norms) or normal (biases).
OperandCase vector(std::int64_t n, Fill fill);
// f32 weight [rows, pairs] of rotation frequencies, base 10000, each row slower than the one
// before.
OperandCase frequencies(std::int64_t rows, std::int64_t pairs);
// i32 [dims], random in [0, limit).
OperandCase indices(std::vector<Dim> dims, std::int64_t limit);
// i32 [dims], as given.
OperandCase given(std::vector<Dim> dims, std::vector<std::int32_t> values);
// bf16 stands for the device's own type.
OperandCase state(std::int64_t kv_heads, std::int64_t head_dim, DType dtype = DType::kBF16);
OperandCase state(const StateSpec& spec);
// `count` different slots of [0, limit), shuffled.
std::vector<std::int32_t> distinct_slots(std::int64_t count, std::int64_t limit);

}  // namespace ingot::sample
