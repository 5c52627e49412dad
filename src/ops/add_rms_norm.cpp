#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("add_rms_norm", types, 3);
  in.want(in.attributes<RmsNormAttrs>(attrs).eps >= 0, "eps is negative or no number");
  const ValueType& x = in.rows(0);
  in.same(1, x);
  in.plain(2, {x.dims[1]});
  return {x, x};
}

void reference(const RefCall& call) {
  call_reference("add", {}, {call.operands[0], call.operands[1]}, call.results[0]);
  call_reference("rms_norm", call.attrs, {&call.results[0], call.operands[2]}, call.results[1]);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, columns] :
       {std::tuple("one_row", 1, 576), {"odd", 5, 37}, {"many", 67, 192}, {"wide", 3, 4096}})
    result.push_back({.name = name,
                      .dims = sample::dims({.tokens = tokens}),
                      .attrs = write_attrs(RmsNormAttrs{}),
                      .operands = {sample::activation(columns), sample::activation(columns),
                                   sample::vector(columns, Fill::kNearOne)}});
  return result;
}

}  // namespace

extern const OpDef kOp_add_rms_norm;
const OpDef kOp_add_rms_norm = {
    .name = "add_rms_norm",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
    .in_place = {{0, 0}, {1, 0}},
};

}  // namespace ingot
