#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <cmath>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("rope", types, 4);
  const auto a = in.attributes<RopeAttrs>(attrs);
  const ValueType& x = in.rows(0);
  in.want(a.head_dim >= 1 && columns(x) % a.head_dim == 0, "{} columns in heads of {}", columns(x),
          a.head_dim);
  in.want(a.rotary_dim >= 2 && a.rotary_dim % 2 == 0 && a.rotary_dim <= a.head_dim,
          "rotary_dim {} of head_dim {}", a.rotary_dim, a.head_dim);
  in.integers(1, {x.dims[0]});
  in.want(in.plain(2, 2).dims[1] == Dim(a.rotary_dim / 2), "inv_freq is {}, wanted rows of {}",
          to_string(in[2]), a.rotary_dim / 2);
  in.integers(3, {x.dims[0]});
  return {x};
}

// The angle is rounded to f32, as HF does; its sine and cosine are exact.
void turn(const RopeAttrs& a, const float* inv_freq, float position, float* head) {
  const std::int64_t pairs = a.rotary_dim / 2;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double angle = position * inv_freq[i];
    const double c = std::cos(angle) * a.scale, s = std::sin(angle) * a.scale;
    float& first = head[a.interleaved ? 2 * i : i];
    float& second = head[a.interleaved ? 2 * i + 1 : i + pairs];
    const double x = first, y = second;
    first = static_cast<float>(x * c - y * s);
    second = static_cast<float>(x * s + y * c);
  }
}

void reference(const RefCall& call) {
  const auto a = read_attrs<RopeAttrs>(call.attrs);
  const RefTensor& x = *call.operands[0];                            // [T, heads * head_dim]
  const std::vector<std::int32_t>& positions = call.operands[1]->i;  // [T]
  const RefTensor& inv_freq = *call.operands[2];                     // [F, rotary_dim / 2]
  const std::vector<std::int32_t>& row = call.operands[3]->i;        // [T]
  RefTensor& out = call.results[0];
  out.f = x.f;
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    const auto ti = static_cast<std::size_t>(t);
    check(positions[ti] >= 0, "negative position");
    check(row[ti] >= 0 && row[ti] < inv_freq.shape[0], "rope_row outside inv_freq");
    for (std::int64_t h = 0; h < x.shape[1]; h += a.head_dim)
      turn(a, inv_freq.f.data() + row[ti] * inv_freq.shape[1], static_cast<float>(positions[ti]),
           out.f.data() + t * x.shape[1] + h);
  }
}

struct Sample {
  std::string_view name;
  std::int64_t tokens, heads;
  RopeAttrs attrs;
  std::int64_t last_position = 2048, tables = 1;
};

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const Sample& s : std::initializer_list<Sample>{
           {"one", 1, 9, {.head_dim = 64, .rotary_dim = 64}},
           {"interleaved", 5, 3, {.head_dim = 64, .rotary_dim = 64, .interleaved = true}},
           {"partial", 7, 2, {.head_dim = 80, .rotary_dim = 32}},
           {"partial_interleaved", 3, 2, {.head_dim = 32, .rotary_dim = 8, .interleaved = true}},
           {"scaled_two_tables",
            34,
            4,
            {.head_dim = 128, .rotary_dim = 128, .scale = 1.19},
            9000,
            2},
           {"start", 2, 1, {.head_dim = 16, .rotary_dim = 16}, 1},
       })
    result.push_back({.name = s.name,
                      .dims = sample::dims({.tokens = s.tokens}),
                      .attrs = write_attrs(s.attrs),
                      .operands = {sample::activation(s.heads * s.attrs.head_dim),
                                   sample::indices({Symbol::kTokens}, s.last_position),
                                   sample::frequencies(s.tables, s.attrs.rotary_dim / 2),
                                   sample::indices({Symbol::kTokens}, s.tables)}});
  return result;
}

}  // namespace

extern const OpDef kOp_rope;
const OpDef kOp_rope = {
    .name = "rope",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
    .in_place = {{0, 0}},
    .indices = {{1, "positions"}, {3, "rope_row", 2}},
};

}  // namespace ingot
