#pragma once

#include "ir/attrs.h"
#include "ir/type.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

// What references compute on: plain f32 (or i32) memory, whatever the dtype of the value is.
struct RefTensor {
  Shape shape;
  std::vector<float> f;         // floating values and dequantised weights
  std::vector<std::int32_t> i;  // integer values
};

// A KV state for references: one flat array a slot, slot = page * page_tokens + offset in the page.
// It holds what reading gives back: of an 8-bit state the rounded values, code times scale.
struct RefState {
  std::int64_t page_tokens = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::kF32;
  std::vector<float> k;  // [slots, kv_heads * head_dim]
  std::vector<float> v;  // [slots, kv_heads * head_dim]
};

struct RefCall {
  const Attrs& attrs;
  std::span<const RefTensor* const> operands;  // null where the operand is a state
  std::span<RefState* const> states;           // by operand index; null where it is a tensor
  std::span<RefTensor> results;                // shapes set, memory sized, zeroed
};

// One sample call for the generic op test: attributes, operand types and how to fill them.
enum class Fill : std::uint8_t {
  kNormal,   // standard normal floats
  kWeight,   // normal, scaled by 1/sqrt(columns)
  kNearOne,  // 1 + 0.1 * normal (norm weights)
  kIndex,    // integers in [0, limit)
  kGiven,    // `given` holds them
};
struct OperandCase {
  // Dimensions may be symbols, as in a model's graph (OpCase::dims has their values). An activation
  // or state of bf16 stands for the device's own type, f32 for f32; weights are f32 and stand for
  // every format that the op takes.
  ValueType type;
  Fill fill = Fill::kNormal;
  std::int64_t limit = 0;
  std::vector<std::int32_t> given;  // integers
  std::vector<float> given_f;       // floats, for kGiven on a float operand
};
struct OpCase {
  std::string_view name;
  DimValues dims;
  Attrs attrs;  // dtypes named by them ("out", "to"): bf16 stands for the device's own type
  std::vector<OperandCase> operands;
  std::int64_t page_tokens = 0;  // of states; 0: the device's own
  std::int64_t state_pages = 0;  // pages of each state operand, filled with normals before the call
};

// An operand that holds indices: kernels follow them unchecked, so it must be the step's own input
// of that name, and what the values point into must be as large as that input's values may become.
struct IndexOperand {
  int operand = 0;
  std::string_view input;
  int into = -1;  // operand whose first dimension they index; -1: a state
};

// All that an op means. One file in ops/ defines each; the stem is the name.
struct OpDef {
  std::string_view name;

  // Result types, or throws Error{kBadInput} "[op.name] ..." when the operands do not fit.
  std::vector<ValueType> (*infer)(const Attrs& attrs, std::span<const ValueType> operands);
  // The meaning, in f32 plain loops. A fused op calls the references of what it fuses.
  void (*reference)(const RefCall& call);
  // Sample calls for the generic test and benchmark.
  std::vector<OpCase> (*cases)();

  // Operand whose rows map one to one to the result's rows (rms_norm, linear, add): rows may be
  // selected before instead of after, together with those of every other tensor operand that has
  // the same first dimension. -1: none.
  int row_operand = -1;
  bool reads_state = false;
  bool writes_state = false;
  // (operand, result) pairs that may share memory when the operand is an activation that dies here,
  // is no other operand of the call, and has the result's size.
  std::vector<std::pair<int, int>> in_place = {};
  std::vector<IndexOperand> indices = {};
};

using OpTable = std::span<const OpDef* const>;

}  // namespace ingot
