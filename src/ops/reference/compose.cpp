#include "ops/reference/compose.h"

#include "ops/ops.h"

namespace ingot {

RefTensor make_ref(const Shape& shape, DType dtype) {
  RefTensor tensor;
  tensor.shape = shape;
  const auto count = static_cast<std::size_t>(shape.elements());
  if (is_float(dtype))
    tensor.f.assign(count, 0.0f);
  else
    tensor.i.assign(count, 0);
  return tensor;
}

void call_reference(std::string_view name, const Attrs& attrs,
                    std::initializer_list<const RefTensor*> operands, std::span<RefTensor> results,
                    std::initializer_list<RefState*> states) {
  std::vector<RefState*> by_operand(states);
  by_operand.resize(operands.size(), nullptr);
  op(name).reference({.attrs = attrs,
                      .operands = {operands.begin(), operands.size()},
                      .states = by_operand,
                      .results = results});
}

void call_reference(std::string_view name, const Attrs& attrs,
                    std::initializer_list<const RefTensor*> operands, RefTensor& result) {
  call_reference(name, attrs, operands, std::span(&result, 1));
}

}  // namespace ingot
