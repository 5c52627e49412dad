#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/kv_row.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <algorithm>
#include <tuple>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("kv_append", types, 4);
  in.no_attributes(attrs);
  const ValueType& k = in.rows(0);
  in.same(1, k);
  in.integers(2, {k.dims[0]});
  const StateSpec& state = in.state(3);
  in.want(columns(k) == in.product(state.kv_heads, state.head_dim),
          "{} columns for a state of {} heads of {}", columns(k), state.kv_heads, state.head_dim);
  return {};
}

void reference(const RefCall& call) {
  const RefTensor& k = *call.operands[0];  // [T, kv_heads * head_dim]
  const RefTensor& v = *call.operands[1];
  const std::vector<std::int32_t>& slots = call.operands[2]->i;  // [T]
  RefState& state = *call.states[3];
  const std::int64_t width = k.shape[1];
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const std::int64_t first = slots[t] * width;
    check(first >= 0 && first + width <= static_cast<std::int64_t>(state.k.size()),
          "slot outside the state");
    const std::int64_t from = static_cast<std::int64_t>(t) * width;
    std::copy_n(k.f.begin() + from, width, state.k.begin() + first);
    std::copy_n(v.f.begin() + from, width, state.v.begin() + first);
    if (state_scale_bytes(state.dtype) == 0) continue;
    const auto dim = static_cast<std::size_t>(state.head_dim);
    for (std::int64_t at = first; at < first + width; at += state.head_dim) {
      round_kv_row(state.dtype, {state.k.data() + at, dim});
      round_kv_row(state.dtype, {state.v.data() + at, dim});
    }
  }
}

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  constexpr DType kOwn = DType::kBF16;
  for (const auto& [name, tokens, heads, dim, pages, dtype] :
       {std::tuple("one", 1, 3, 64, 2, kOwn),
        {"one_head", 5, 1, 16, 1, kOwn},
        {"many", 60, 2, 128, 5, kOwn},
        {"dim_80", 19, 2, 80, 3, kOwn},
        {"one_int8", 1, 3, 64, 2, DType::kI8},
        {"many_int8", 60, 2, 128, 5, DType::kI8},
        {"dim_80_int8", 19, 2, 80, 3, DType::kI8},
        {"one_fp8", 1, 3, 64, 2, DType::kE4M3},
        {"many_fp8", 60, 2, 128, 5, DType::kE4M3},
        {"dim_80_fp8", 19, 2, 80, 3, DType::kE4M3}})
    result.push_back(
        {.name = name,
         .dims = sample::dims({.tokens = tokens}),
         .attrs = {},
         .operands = {sample::activation(heads * dim), sample::activation(heads * dim),
                      sample::given({Symbol::kTokens}, sample::distinct_slots(tokens, pages * 16)),
                      sample::state(heads, dim, dtype)},
         .state_pages = pages});
  return result;
}

}  // namespace

extern const OpDef kOp_kv_append;
const OpDef kOp_kv_append = {
    .name = "kv_append",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .writes_state = true,
    .indices = {{2, "slots"}},
};

}  // namespace ingot
