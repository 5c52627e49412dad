#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <algorithm>
#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("gather_rows", types, 2);
  in.no_attributes(attrs);
  const ValueType& x = in.rows(0);
  return {with_columns(in.integers(1, 1), x.dtype, columns(x))};
}

void reference(const RefCall& call) {
  const RefTensor& x = *call.operands[0];                       // [T, H]
  const std::vector<std::int32_t>& rows = call.operands[1]->i;  // [R]
  const std::int64_t h = x.shape[1];
  for (std::size_t r = 0; r < rows.size(); ++r) {
    check(rows[r] >= 0 && rows[r] < x.shape[0], "row outside the tensor");
    std::copy_n(x.f.begin() + rows[r] * h, h,
                call.results[0].f.begin() + static_cast<std::int64_t>(r) * h);
  }
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, rows, columns] : {std::tuple("one_row", 1, 1, 576),
                                                    {"last_of_many", 65, 1, 192},
                                                    {"odd", 7, 5, 37},
                                                    {"more_rows_than_tokens", 3, 8, 64}})
    result.push_back(
        {.name = name,
         .dims = sample::dims({.tokens = tokens, .rows = rows}),
         .attrs = {},
         .operands = {sample::activation(columns), sample::indices({Symbol::kRows}, tokens)}});
  return result;
}

}  // namespace

extern const OpDef kOp_gather_rows;
const OpDef kOp_gather_rows = {
    .name = "gather_rows",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .indices = {{1, "rows", 0}},
};

}  // namespace ingot
