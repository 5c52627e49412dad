#pragma once

#include "quant/weight_format.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Sizes that a step decides. Every one has an upper bound in the profile (DimValues at its maxima).
enum class Symbol : std::uint8_t {
  kOne,        // no symbol: the dimension is a number
  kTokens,     // T: tokens of the step, all sequences packed one after another
  kSequences,  // S: sequences of the step
  kRows,       // R: rows whose logits (or hidden state) are wanted
  kPages,      // P: entries of a block table's row
};
inline constexpr int kSymbols = 5;

// The value of each symbol in one step, or its upper bound. values[kOne] is always 1.
struct DimValues {
  std::array<std::int64_t, kSymbols> values{1, 0, 0, 0, 0};
  std::int64_t& operator[](Symbol s) { return values[static_cast<std::size_t>(s)]; }
  std::int64_t operator[](Symbol s) const { return values[static_cast<std::size_t>(s)]; }
  friend bool operator==(const DimValues&, const DimValues&) = default;
};

// scale * symbol + offset. Monotone in its symbol, so sizes at the maxima bound all sizes.
struct Dim {
  Symbol symbol = Symbol::kOne;
  std::int64_t scale = 0;
  std::int64_t offset = 0;

  Dim() = default;
  Dim(std::int64_t number)
      : offset(number) {}  // NOLINT(google-explicit-constructor): numbers are dims
  Dim(Symbol s, std::int64_t scale_by = 1) : symbol(s), scale(scale_by) {}  // NOLINT

  bool is_number() const { return symbol == Symbol::kOne; }
  std::int64_t at(const DimValues& v) const { return scale * v[symbol] + offset; }
  friend bool operator==(const Dim&, const Dim&) = default;
};

std::string to_string(const Dim& dim);  // "T", "64", "2T", "S+1"

// What a layer keeps between steps. Pages: [page][page_tokens tokens of K and V], in a layout that
// the device owns. In 8 bit the K and the V of a token and kv head have an f32 scale each
// (ops/reference/kv_row.h says what it means).
struct StateSpec {
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::kBF16;
  std::int64_t window = 0;       // tokens seen, the current one included; 0 is all
  std::int64_t sink_tokens = 0;  // first tokens of a sequence, kept though the window passes them
  friend bool operator==(const StateSpec&, const StateSpec&) = default;
};

// Whether a state may be kept in this type: f32, f16, bf16, i8, e4m3.
bool is_state_dtype(DType dtype);
// Bytes of scale beside the K, or the V, of a token and kv head: 4 in 8 bit, else 0.
std::size_t state_scale_bytes(DType dtype);
// Bytes of one token, K and V of all heads with their scales, in a layout without gaps.
std::size_t state_token_bytes(const StateSpec& spec);

// The type of a value: element type, dimensions and, for weights, how the numbers are stored.
struct ValueType {
  DType dtype = DType::kF32;
  std::vector<Dim> dims;                 // outermost first, at most Shape::kMaxRank
  const WeightFormat* format = nullptr;  // weights only; dtype is then what the numbers mean: f32
  StateSpec state;                       // states only

  Shape at(const DimValues& v) const;
  std::size_t bytes_at(const DimValues& v) const;  // not for weights and states
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

std::string to_string(const ValueType& type);  // "f32[T,576]", "q4_1[576,1536]"

}  // namespace ingot
