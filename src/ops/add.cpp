#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("add", types, 2);
  in.no_attributes(attrs);
  return {in.same(1, in.rows(0))};
}

void reference(const RefCall& call) {
  const std::vector<float>& x = call.operands[0]->f;
  const std::vector<float>& y = call.operands[1]->f;
  std::vector<float>& out = call.results[0].f;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[i] + y[i];
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, columns] :
       {std::tuple("one_row", 1, 576), {"odd", 3, 37}, {"many", 70, 192}})
    result.push_back({.name = name,
                      .dims = sample::dims({.tokens = tokens}),
                      .attrs = {},
                      .operands = {sample::activation(columns), sample::activation(columns)}});
  return result;
}

}  // namespace

extern const OpDef kOp_add;
const OpDef kOp_add = {
    .name = "add",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
    .in_place = {{0, 0}, {1, 0}},
};

}  // namespace ingot
