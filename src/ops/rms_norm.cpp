#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <cmath>
#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("rms_norm", types, 2);
  in.want(in.attributes<RmsNormAttrs>(attrs).eps >= 0, "eps is negative or no number");
  const ValueType& x = in.rows(0);
  in.plain(1, {x.dims[1]});
  return {x};
}

void reference(const RefCall& call) {
  const double eps = read_attrs<RmsNormAttrs>(call.attrs).eps;
  const RefTensor& x = *call.operands[0];                  // [T, H]
  const std::vector<float>& weight = call.operands[1]->f;  // [H]
  const auto h = static_cast<std::size_t>(x.shape[1]);
  for (std::size_t row = 0; row < x.f.size(); row += h) {
    double squares = 0;
    for (std::size_t i = 0; i < h; ++i) squares += static_cast<double>(x.f[row + i]) * x.f[row + i];
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(h) + eps);
    for (std::size_t i = 0; i < h; ++i)
      call.results[0].f[row + i] = static_cast<float>(x.f[row + i] * inverse * weight[i]);
  }
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, columns, eps] : {std::tuple("one_row", 1, 576, 1e-5),
                                                   {"odd", 5, 37, 1e-6},
                                                   {"many", 67, 192, 1e-5},
                                                   {"wide", 3, 4096, 1e-5},
                                                   {"large_eps", 2, 64, 0.5}})
    result.push_back(
        {.name = name,
         .dims = sample::dims({.tokens = tokens}),
         .attrs = write_attrs(RmsNormAttrs{.eps = eps}),
         .operands = {sample::activation(columns), sample::vector(columns, Fill::kNearOne)}});
  return result;
}

}  // namespace

extern const OpDef kOp_rms_norm;
const OpDef kOp_rms_norm = {
    .name = "rms_norm",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
    .in_place = {{0, 0}},
};

}  // namespace ingot
