#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

namespace ingot {

namespace {

// Row of gate (part 0) or up (part 1) number j in a matrix whose rows are interleaved.
std::int64_t interleaved_row(std::int64_t j, std::int64_t part) {
  const std::int64_t group = j / kGateUpInterleave;
  return (2 * group + part) * kGateUpInterleave + j % kGateUpInterleave;
}

std::size_t operand_count(const LinearAttrs& a) {
  return 2 + (a.bias ? 1 : 0) + (a.residual ? 1 : 0);
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  LinearAttrs a = read_attrs<LinearAttrs>(attrs);
  const Operands in("linear", types, operand_count(a));
  a = in.attributes<LinearAttrs>(attrs);
  const ValueType& x = in.rows(0);
  const ValueType& weight = in.matrix(1);
  in.want(weight.dims[1] == x.dims[1], "{} columns times the weight {}", columns(x),
          to_string(weight));
  std::int64_t n = weight.dims[0].offset;
  if (a.bias) in.plain(2, {weight.dims[0]});
  if (a.swiglu) {
    in.want(n % (2 * kGateUpInterleave) == 0, "{} rows with swiglu, wanted a multiple of {}", n,
            2 * kGateUpInterleave);
    n /= 2;
  }
  ValueType result = with_columns(x, in.float_dtype(a.out), n);
  if (a.residual) in.same(types.size() - 1, result);
  return {result};
}

// x * weight^T + bias: [T, rows of the weight], in double.
RefTensor product(const RefCall& call, const LinearAttrs& a) {
  const RefTensor& x = *call.operands[0];       // [T, K]
  const RefTensor& weight = *call.operands[1];  // [N, K]
  const std::int64_t tokens = x.shape[0], k = x.shape[1], n = weight.shape[0];
  RefTensor out = make_ref({tokens, n});
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t j = 0; j < n; ++j) {
      const float* row = weight.f.data() + j * k;
      const float* in = x.f.data() + t * k;
      double sum = a.bias ? call.operands[2]->f[static_cast<std::size_t>(j)] : 0.0;
      for (std::int64_t i = 0; i < k; ++i) sum += static_cast<double>(in[i]) * row[i];
      out.f[static_cast<std::size_t>(t * n + j)] = static_cast<float>(sum);
    }
  return out;
}

RefTensor take_part(const RefTensor& merged, std::int64_t part) {
  const std::int64_t n = merged.shape[1] / 2;
  RefTensor out = make_ref({merged.shape[0], n});
  for (std::int64_t t = 0; t < merged.shape[0]; ++t)
    for (std::int64_t j = 0; j < n; ++j)
      out.f[static_cast<std::size_t>(t * n + j)] =
          merged.f[static_cast<std::size_t>(t * 2 * n + interleaved_row(j, part))];
  return out;
}

void reference(const RefCall& call) {
  const auto a = read_attrs<LinearAttrs>(call.attrs);
  RefTensor out = product(call, a);
  if (a.swiglu) {
    const RefTensor gate = take_part(out, 0);
    const RefTensor up = take_part(out, 1);
    out = make_ref(gate.shape);
    call_reference("swiglu", {}, {&gate, &up}, out);
  }
  if (a.residual)
    call_reference("add", {}, {&out, call.operands[call.operands.size() - 1]}, call.results[0]);
  else
    call.results[0] = std::move(out);
}

struct Sample {
  std::string_view name;
  std::int64_t tokens, n, k;
  LinearAttrs attrs = {.out = "bf16"};
};

std::vector<OpCase> cases() {
  std::vector<OpCase> result;
  for (const Sample& s : std::initializer_list<Sample>{
           {"decode", 1, 96, 576},
           {"decode_256", 1, 70, 512},
           {"two", 2, 64, 256},
           {"three_bias", 3, 80, 256, {.bias = true, .out = "bf16"}},
           {"odd", 5, 37, 33},
           {"one_row", 4, 1, 64},
           {"seven", 7, 40, 320},
           {"eight", 8, 24, 1152},
           {"sixteen_odd", 16, 17, 63},
           {"seventeen_residual", 17, 48, 256, {.residual = true, .out = "bf16"}},
           {"thirty_three", 33, 50, 192},
           {"sixty_four", 64, 96, 576},
           {"sixty_five", 65, 35, 40},
           {"many", 67, 130, 512},
           {"two_hundred", 200, 70, 512},
           {"many_bias_residual", 40, 33, 96, {.bias = true, .residual = true, .out = "bf16"}},
           {"logits", 3, 257, 256, {.out = "f32"}},
           {"swiglu_decode", 1, 128, 256, {.swiglu = true, .out = "bf16"}},
           {"swiglu_many", 35, 96, 576, {.swiglu = true, .out = "bf16"}},
           {"swiglu_bias", 6, 64, 256, {.bias = true, .swiglu = true, .out = "bf16"}},
           {"swiglu_residual", 9, 64, 64, {.residual = true, .swiglu = true, .out = "bf16"}},
           {"f32_residual", 4, 48, 256, {.residual = true, .out = "f32"}},
       }) {
    OpCase c{
        .name = s.name, .dims = sample::dims({.tokens = s.tokens}), .attrs = write_attrs(s.attrs)};
    c.operands = {sample::activation(s.k), sample::matrix(s.n, s.k)};
    if (s.attrs.bias) c.operands.push_back(sample::vector(s.n, Fill::kNormal));
    if (s.attrs.residual)
      c.operands.push_back(
          sample::activation(s.attrs.swiglu ? s.n / 2 : s.n, *dtype_from_name(s.attrs.out)));
    result.push_back(std::move(c));
  }
  return result;
}

}  // namespace

extern const OpDef kOp_linear;
const OpDef kOp_linear = {
    .name = "linear",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .row_operand = 0,
    .in_place = {{2, 0}, {3, 0}},
};

}  // namespace ingot
