#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("cast", types, 1);
  const auto a = in.attributes<CastAttrs>(attrs);
  ValueType result = in.rows(0);
  result.dtype = in.float_dtype(a.to);
  return {result};
}

void reference(const RefCall& call) {
  call.results[0].f = call.operands[0]->f;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, columns, from, to] :
       {std::tuple("widen", 3, 576, DType::kBF16, "f32"),
        {"narrow", 5, 37, DType::kF32, "bf16"},
        {"narrow_many", 70, 192, DType::kF32, "bf16"}})
    result.push_back({.name = name,
                      .dims = sample::dims({.tokens = tokens}),
                      .attrs = write_attrs(CastAttrs{.to = to}),
                      .operands = {sample::activation(columns, from)}});
  return result;
}

}  // namespace

extern const OpDef kOp_cast;
const OpDef kOp_cast = {
    .name = "cast",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
};

}  // namespace ingot
