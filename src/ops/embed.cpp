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
  const Operands in("embed", types, 2);
  const auto a = in.attributes<EmbedAttrs>(attrs);
  return {with_columns(in.integers(0, 1), in.float_dtype(a.out), columns(in.matrix(1)))};
}

void reference(const RefCall& call) {
  const std::vector<std::int32_t>& ids = call.operands[0]->i;  // [T]
  const RefTensor& table = *call.operands[1];                  // [V, H]
  const std::int64_t h = table.shape[1];
  for (std::size_t t = 0; t < ids.size(); ++t) {
    check(ids[t] >= 0 && ids[t] < table.shape[0], "token id outside the embedding table");
    std::copy_n(table.f.begin() + ids[t] * h, h,
                call.results[0].f.begin() + static_cast<std::int64_t>(t) * h);
  }
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const auto& [name, tokens, vocabulary, columns, out] :
       {std::tuple("one_token", 1, 49, 512, "bf16"),
        {"f32", 9, 64, 256, "f32"},
        {"odd", 7, 33, 37, "bf16"},
        {"many", 65, 100, 576, "bf16"}})
    result.push_back({.name = name,
                      .dims = sample::dims({.tokens = tokens}),
                      .attrs = write_attrs(EmbedAttrs{.out = out}),
                      .operands = {sample::indices({Symbol::kTokens}, vocabulary),
                                   sample::matrix(vocabulary, columns)}});
  return result;
}

}  // namespace

extern const OpDef kOp_embed;
const OpDef kOp_embed = {
    .name = "embed",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .indices = {{0, "ids", 1}},
};

}  // namespace ingot
