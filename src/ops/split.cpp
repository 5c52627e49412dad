#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <algorithm>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("split", types, 1);
  const auto a = in.attributes<SplitAttrs>(attrs);
  const ValueType& x = in.rows(0);
  in.want(!a.sizes.empty(), "no sizes");
  std::int64_t left = columns(x);
  std::vector<ValueType> results;
  for (const std::int64_t size : a.sizes) {
    in.want(size >= 1 && size <= left, "size {} of {} columns left", size, left);
    left -= size;
    results.push_back(with_columns(x, x.dtype, size));
  }
  in.want(left == 0, "{} of {} columns are in no part", left, columns(x));
  return results;
}

void reference(const RefCall& call) {
  const RefTensor& x = *call.operands[0];  // [T, N]
  std::int64_t first = 0;
  for (RefTensor& part : call.results) {
    const std::int64_t size = part.shape[1];
    for (std::int64_t t = 0; t < x.shape[0]; ++t)
      std::copy_n(x.f.begin() + t * x.shape[1] + first, size, part.f.begin() + t * size);
    first += size;
  }
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  const auto add = [&](std::string_view name, std::int64_t tokens,
                       std::vector<std::int64_t> sizes) {
    std::int64_t columns = 0;
    for (const std::int64_t s : sizes) columns += s;
    result.push_back({.name = name,
                      .dims = sample::dims({.tokens = tokens}),
                      .attrs = write_attrs(SplitAttrs{.sizes = std::move(sizes)}),
                      .operands = {sample::activation(columns)}});
  };
  add("one_row", 1, {576, 192, 192});
  add("odd", 5, {3, 34});
  add("many", 66, {128, 64, 64});
  return result;
}

}  // namespace

extern const OpDef kOp_split;
const OpDef kOp_split = {
    .name = "split",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
};

}  // namespace ingot
