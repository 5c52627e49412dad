#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("rope_kv_append", types, 6);
  const auto a = in.attributes<RopeKvAppendAttrs>(attrs);
  const ValueType& qkv = in.rows(0);
  const StateSpec& state = in.state(5);
  in.want(state.kv_heads == a.kv_heads && state.head_dim == a.rope.head_dim,
          "{} heads of {} for a state of {} heads of {}", a.kv_heads, a.rope.head_dim,
          state.kv_heads, state.head_dim);
  const std::int64_t q_columns = in.product(a.heads, a.rope.head_dim);
  const std::int64_t kv_columns = in.product(a.kv_heads, a.rope.head_dim);
  in.want((columns(qkv) - q_columns) % 2 == 0 && (columns(qkv) - q_columns) / 2 == kv_columns,
          "{} columns, wanted {} + 2 * {}", columns(qkv), q_columns, kv_columns);
  in.integers(1, {qkv.dims[0]});
  in.want(
      a.rope.rotary_dim >= 2 && a.rope.rotary_dim % 2 == 0 && a.rope.rotary_dim <= a.rope.head_dim,
      "rotary_dim {} of head_dim {}", a.rope.rotary_dim, a.rope.head_dim);
  in.want(in.plain(2, 2).dims[1] == Dim(a.rope.rotary_dim / 2), "inv_freq is {}, wanted rows of {}",
          to_string(in[2]), a.rope.rotary_dim / 2);
  in.integers(3, {qkv.dims[0]});
  in.integers(4, {qkv.dims[0]});
  return {with_columns(qkv, qkv.dtype, q_columns)};
}

void reference(const RefCall& call) {
  const auto a = read_attrs<RopeKvAppendAttrs>(call.attrs);
  const std::int64_t tokens = call.operands[0]->shape[0];
  const std::int64_t q_columns = a.heads * a.rope.head_dim;
  const std::int64_t kv_columns = a.kv_heads * a.rope.head_dim;
  std::vector<RefTensor> parts = {make_ref({tokens, q_columns}), make_ref({tokens, kv_columns}),
                                  make_ref({tokens, kv_columns})};
  call_reference("split", write_attrs(SplitAttrs{.sizes = {q_columns, kv_columns, kv_columns}}),
                 {call.operands[0]}, parts);
  RefTensor k = make_ref({tokens, kv_columns});
  const Attrs rope = write_attrs(a.rope);
  const auto turned = [&](const RefTensor& x, RefTensor& out) {
    call_reference("rope", rope, {&x, call.operands[1], call.operands[2], call.operands[3]}, out);
  };
  turned(parts[0], call.results[0]);
  turned(parts[1], k);
  call_reference("kv_append", {}, {&k, &parts[2], call.operands[4], nullptr}, {},
                 {nullptr, nullptr, nullptr, call.states[5]});
}

struct Sample {
  std::string_view name;
  std::int64_t tokens;
  RopeKvAppendAttrs attrs;
  std::int64_t pages = 2, tables = 1;
  DType dtype = DType::kBF16;
};

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const Sample& s : std::initializer_list<Sample>{
           {"smollm2_decode", 1, {9, 3, {.head_dim = 64, .rotary_dim = 64}}},
           {"many", 45, {4, 2, {.head_dim = 128, .rotary_dim = 128}}, 4},
           {"interleaved", 7, {3, 1, {.head_dim = 64, .rotary_dim = 64, .interleaved = true}}},
           {"no_groups", 3, {2, 2, {.head_dim = 80, .rotary_dim = 32, .scale = 1.1}}, 1, 2},
           {"int8", 45, {4, 2, {.head_dim = 128, .rotary_dim = 128}}, 4, 1, DType::kI8},
           {"int8_part", 3, {2, 2, {.head_dim = 80, .rotary_dim = 32}}, 1, 2, DType::kI8},
           {"fp8", 45, {9, 3, {.head_dim = 64, .rotary_dim = 64}}, 4, 1, DType::kE4M3},
           {"fp8_interleaved",
            7,
            {3, 1, {.head_dim = 64, .rotary_dim = 64, .interleaved = true}},
            2,
            1,
            DType::kE4M3},
       }) {
    const RopeAttrs& rope = s.attrs.rope;
    result.push_back(
        {.name = s.name,
         .dims = sample::dims({.tokens = s.tokens}),
         .attrs = write_attrs(s.attrs),
         .operands = {sample::activation((s.attrs.heads + 2 * s.attrs.kv_heads) * rope.head_dim),
                      sample::indices({Symbol::kTokens}, 3000),
                      sample::frequencies(s.tables, rope.rotary_dim / 2),
                      sample::indices({Symbol::kTokens}, s.tables),
                      sample::given({Symbol::kTokens},
                                    sample::distinct_slots(s.tokens, s.pages * 16)),
                      sample::state(s.attrs.kv_heads, rope.head_dim, s.dtype)},
         .state_pages = s.pages});
  }
  return result;
}

}  // namespace

extern const OpDef kOp_rope_kv_append;
const OpDef kOp_rope_kv_append = {
    .name = "rope_kv_append",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .writes_state = true,
    .indices = {{1, "positions"}, {3, "rope_row", 2}, {4, "slots"}},
};

}  // namespace ingot
