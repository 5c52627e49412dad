#include "ops/attrs.h"
#include "ops/reference/sample.h"

#include "tests/ops/op_run.h"
#include <cmath>
#include <numeric>

namespace ingot {

namespace {

struct LinearShape {
  std::string_view name;
  std::int64_t tokens, n, k;
  bool swiglu = false;
};

BenchCase linear(const LinearShape& s) {
  const double flops = 2.0 * static_cast<double>(s.tokens * s.n * s.k);
  return {"linear",
          {.name = s.name,
           .dims = sample::dims({.tokens = s.tokens}),
           .attrs = write_attrs(LinearAttrs{.swiglu = s.swiglu, .out = "bf16"}),
           .operands = {sample::activation(s.k), sample::matrix(s.n, s.k)}},
          flops};
}

struct AttentionShape {
  std::string_view name;
  std::int64_t heads, kv_heads, head_dim, queries, context;
};

// One sequence; pages in order, so that the shape of the walk is that of a fresh pool.
BenchCase attention(const AttentionShape& s) {
  const std::int64_t table = (s.context + 15) / 16;
  std::vector<std::int32_t> pages(static_cast<std::size_t>(table));
  std::iota(pages.begin(), pages.end(), 0);
  Dim starts(Symbol::kSequences);
  starts.offset = 1;
  const double visible =
      static_cast<double>(s.queries) *
      (static_cast<double>(s.context) - 0.5 * static_cast<double>(s.queries - 1));
  return {"attention",
          {.name = s.name,
           .dims = sample::dims({.tokens = s.queries, .sequences = 1, .pages = table}),
           .attrs = write_attrs(
               AttentionAttrs{.heads = s.heads,
                              .kv_heads = s.kv_heads,
                              .head_dim = s.head_dim,
                              .scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim))}),
           .operands = {sample::activation(s.heads * s.head_dim),
                        sample::given({starts}, {0, static_cast<std::int32_t>(s.queries)}),
                        sample::given({Symbol::kSequences}, {static_cast<std::int32_t>(s.context)}),
                        sample::given({Symbol::kSequences, Symbol::kPages}, pages),
                        sample::state(s.kv_heads, s.head_dim)},
           .state_pages = table},
          4.0 * visible * static_cast<double>(s.heads * s.head_dim)};
}

BenchCase rows_of(std::string_view op, std::string_view name, std::int64_t tokens,
                  std::int64_t columns) {
  OpCase c{.name = name, .dims = sample::dims({.tokens = tokens}), .attrs = {}};
  c.operands.push_back(sample::activation(columns));
  if (op == "add_rms_norm" || op == "swiglu") c.operands.push_back(sample::activation(columns));
  if (op != "swiglu") {
    c.operands.push_back(sample::vector(columns, Fill::kNearOne));
    c.attrs = write_attrs(RmsNormAttrs{});
  }
  return {op, std::move(c)};
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const LinearShape& s : std::initializer_list<LinearShape>{
           {"smollm2_qkv_decode", 1, 960, 576},
           {"smollm2_gate_up_decode", 1, 3072, 576, true},
           {"smollm2_down_decode", 1, 576, 1536},
           {"smollm2_head", 1, 49152, 576},
           {"smollm2_gate_up_512", 512, 3072, 576, true},
           {"1b_qkv_decode", 1, 3072, 2048},
           {"1b_gate_up_decode", 1, 16384, 2048, true},
           {"1b_gate_up_8", 8, 16384, 2048, true},
           {"1b_gate_up_512", 512, 16384, 2048, true},
           {"1b_down_512", 512, 2048, 8192},
       })
    cases.push_back(linear(s));
  for (const AttentionShape& s : std::initializer_list<AttentionShape>{
           {"smollm2_decode_512", 9, 3, 64, 1, 512},
           {"smollm2_decode_8192", 9, 3, 64, 1, 8192},
           {"smollm2_prefill_512", 9, 3, 64, 512, 512},
           {"1b_decode_4096", 32, 8, 64, 1, 4096},
           {"8b_prefill_512", 32, 8, 128, 512, 512},
       })
    cases.push_back(attention(s));
  for (const std::string_view op : {"rms_norm", "add_rms_norm", "swiglu"})
    for (const auto& [name, tokens, columns] :
         {std::tuple("smollm2_decode", 1, 576), {"smollm2_512", 512, 576}, {"1b_512", 512, 2048}})
      cases.push_back(rows_of(op, name, tokens, columns));
  return cases;
}

}  // namespace ingot
