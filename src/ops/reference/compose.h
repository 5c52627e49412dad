#pragma once

#include "ir/op_def.h"

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace ingot {

// A zeroed tensor of floats, or of integers.
RefTensor make_ref(const Shape& shape, DType dtype = DType::kF32);

// Calls the reference of another op: what fused ops consist of. `states` is by operand index, empty
// when the op has none; a null operand is a state.
void call_reference(std::string_view op, const Attrs& attrs,
                    std::initializer_list<const RefTensor*> operands, std::span<RefTensor> results,
                    std::initializer_list<RefState*> states = {});
// The same for one result.
void call_reference(std::string_view op, const Attrs& attrs,
                    std::initializer_list<const RefTensor*> operands, RefTensor& result);

inline float silu(float x) {
  return static_cast<float>(x / (1.0 + __builtin_exp(-static_cast<double>(x))));
}

}  // namespace ingot
