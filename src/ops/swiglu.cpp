#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("swiglu", types, 2);
  in.no_attributes(attrs);
  return {in.same(1, in.rows(0))};
}

void reference(const RefCall& call) {
  const std::vector<float>& gate = call.operands[0]->f;
  const std::vector<float>& up = call.operands[1]->f;
  std::vector<float>& out = call.results[0].f;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = silu(gate[i]) * up[i];
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, columns] :
       {std::tuple("one_row", 1, 1536), {"odd", 3, 37}, {"many", 70, 192}})
    result.push_back({.name = name,
                      .dims = sample::dims({.tokens = tokens}),
                      .attrs = {},
                      .operands = {sample::activation(columns), sample::activation(columns)}});
  // Where exp overflows and where silu is the identity.
  OperandCase gate = sample::activation(8);
  gate.fill = Fill::kGiven;
  gate.given_f = {-1000, -100, -88, -1, 0, 1, 90, 1000};
  result.push_back({.name = "extreme",
                    .dims = sample::dims({.tokens = 1}),
                    .attrs = {},
                    .operands = {gate, sample::activation(8)}});
  return result;
}

}  // namespace

extern const OpDef kOp_swiglu;
const OpDef kOp_swiglu = {
    .name = "swiglu",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
    .in_place = {{0, 0}, {1, 0}},
};

}  // namespace ingot
