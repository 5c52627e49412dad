#include "base/check.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/sample.h"
#include "ops/reference/shape_rules.h"

#include <algorithm>
#include <cmath>

namespace ingot {

namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> types) {
  const Operands in("attention", types, 5);
  const auto a = in.attributes<AttentionAttrs>(attrs);
  const ValueType& q = in.rows(0);
  in.want(columns(q) == in.product(a.heads, a.head_dim), "{} columns, wanted {} heads of {}",
          columns(q), a.heads, a.head_dim);
  in.want(a.kv_heads >= 1 && a.heads % a.kv_heads == 0, "{} heads share {} KV heads", a.heads,
          a.kv_heads);
  const StateSpec& state = in.state(4);
  in.want(state.kv_heads == a.kv_heads && state.head_dim == a.head_dim,
          "{} heads of {} on a state of {} heads of {}", a.kv_heads, a.head_dim, state.kv_heads,
          state.head_dim);
  in.want(a.window >= 0 && a.window <= INT32_MAX &&
              (state.window == 0 || (a.window > 0 && a.window <= state.window)),
          "window {} on a state that keeps {}", a.window, state.window);
  in.want(a.sink_tokens >= 0 && a.sink_tokens <= INT32_MAX &&
              (state.window == 0 || a.sink_tokens <= state.sink_tokens),
          "{} sink_tokens on a state that keeps {}", a.sink_tokens, state.sink_tokens);
  in.want(a.softcap >= 0, "softcap is negative or no number");
  const Dim sequences = in.integers(2, 1).dims[0];
  Dim starts = sequences;
  starts.offset += 1;
  in.integers(1, {starts});
  in.want(in.integers(3, 2).dims[0] == sequences, "block_table is {} for {} sequences",
          to_string(in[3]), to_string(sequences));
  return {q};
}

// One query head of one token over the tokens [first, last] of its sequence, and those before
// `sinks`.
struct Row {
  const float* q;
  const std::int32_t* pages;
  std::int64_t table_length;
  std::int64_t sinks, first, last;
  std::int64_t kv_offset, kv_width;  // in a slot's values
  float* out;
};

void attend(const AttentionAttrs& a, const RefState& state, const Row& row) {
  std::vector<double> weights;
  std::vector<std::int64_t> values;  // where each token's K and V begin
  double largest = -INFINITY;
  for (std::int64_t j = 0; j <= row.last; ++j) {
    if (j >= row.sinks && j < row.first) continue;
    const std::int64_t entry = j / state.page_tokens;
    check(entry < row.table_length, "context longer than its block table");
    const std::int64_t slot = row.pages[entry] * state.page_tokens + j % state.page_tokens;
    const std::int64_t at = slot * row.kv_width + row.kv_offset;
    check(slot >= 0 && at + a.head_dim <= static_cast<std::int64_t>(state.k.size()),
          "page outside the state");
    double score = 0;
    for (std::int64_t i = 0; i < a.head_dim; ++i)
      score += static_cast<double>(row.q[i]) * state.k[static_cast<std::size_t>(at + i)];
    score *= a.scale;
    if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
    largest = std::max(largest, score);
    weights.push_back(score);
    values.push_back(at);
  }
  double total = 0;
  for (double& w : weights) total += w = std::exp(w - largest);
  for (std::int64_t i = 0; i < a.head_dim; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j)
      sum += weights[j] * state.v[static_cast<std::size_t>(values[j] + i)];
    row.out[i] = static_cast<float>(sum / total);
  }
}

void reference(const RefCall& call) {
  const auto a = read_attrs<AttentionAttrs>(call.attrs);
  const RefTensor& q = *call.operands[0];                          // [T, heads * head_dim]
  const std::vector<std::int32_t>& start = call.operands[1]->i;    // [S + 1]
  const std::vector<std::int32_t>& context = call.operands[2]->i;  // [S]
  const RefTensor& table = *call.operands[3];                      // [S, P]
  const RefState& state = *call.states[4];
  check(start[0] >= 0 && start.back() <= q.shape[0], "query_start outside the tokens");
  for (std::size_t s = 0; s < context.size(); ++s) {
    const std::int64_t queries = start[s + 1] - start[s];
    check(queries >= 0 && queries <= context[s], "more queries than cached tokens");
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t h = 0; h < a.heads; ++h) {
        const std::int64_t last = context[s] - queries + i;
        const std::int64_t at = (start[s] + i) * q.shape[1] + h * a.head_dim;
        attend(a, state,
               {.q = q.f.data() + at,
                .pages = table.i.data() + static_cast<std::int64_t>(s) * table.shape[1],
                .table_length = table.shape[1],
                .sinks = a.sink_tokens,
                .first = a.window > 0 ? std::max<std::int64_t>(0, last - a.window + 1) : 0,
                .last = last,
                .kv_offset = h / (a.heads / a.kv_heads) * a.head_dim,
                .kv_width = a.kv_heads * a.head_dim,
                .out = call.results[0].f.data() + at});
      }
  }
}

struct Sample {
  std::string_view name;
  AttentionAttrs attrs;
  std::vector<std::int32_t> queries;  // of each sequence
  std::vector<std::int32_t> context;
  DType dtype = DType::kBF16;  // of the state
};

// Pages are drawn at random: shuffled, and shared by sequences here and there.
OpCase sample_case(const Sample& s) {
  std::vector<std::int32_t> start = {0};
  std::int64_t longest = 1;
  for (std::size_t i = 0; i < s.queries.size(); ++i) {
    start.push_back(start.back() + s.queries[i]);
    longest = std::max<std::int64_t>(longest, s.context[i]);
  }
  const auto sequences = static_cast<std::int64_t>(s.queries.size());
  const std::int64_t table = (longest + 15) / 16;  // enough for pages of 16 tokens or more
  const std::int64_t pages = std::min<std::int64_t>(2 * table + 3, 40);
  AttentionAttrs attrs = s.attrs;
  attrs.scale = 1.0 / std::sqrt(static_cast<double>(attrs.head_dim));
  return {.name = s.name,
          .dims = sample::dims({.tokens = start.back(), .sequences = sequences, .pages = table}),
          .attrs = write_attrs(attrs),
          .operands = {sample::activation(attrs.heads * attrs.head_dim),
                       sample::given({[] {
                                       Dim d(Symbol::kSequences);
                                       d.offset = 1;
                                       return d;
                                     }()},
                                     start),
                       sample::given({Symbol::kSequences}, s.context),
                       sample::indices({Symbol::kSequences, Symbol::kPages}, pages),
                       sample::state({.kv_heads = attrs.kv_heads,
                                      .head_dim = attrs.head_dim,
                                      .dtype = s.dtype,
                                      .window = attrs.window,
                                      .sink_tokens = attrs.sink_tokens})},
          .state_pages = pages};
}

std::vector<OpCase> cases() {
  const auto attrs = [](std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                        std::int64_t window = 0, double softcap = 0, std::int64_t sinks = 0) {
    return AttentionAttrs{.heads = heads,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim,
                          .window = window,
                          .softcap = softcap,
                          .sink_tokens = sinks};
  };
  std::vector<OpCase> result;
  for (const Sample& s : std::initializer_list<Sample>{
           {"first_token", attrs(9, 3, 64), {1}, {1}},
           {"decode", attrs(9, 3, 64), {1}, {131}},
           {"decode_batch", attrs(4, 2, 64), {1, 1, 1, 1}, {1, 16, 33, 77}},
           {"prefill", attrs(9, 3, 64), {70}, {70}},
           {"chunk", attrs(4, 1, 64), {19}, {83}},
           {"mixed", attrs(4, 2, 64), {1, 33, 1, 5, 40}, {50, 33, 7, 37, 41}},
           {"idle_sequence", attrs(2, 1, 64), {1, 0, 3}, {9, 0, 20}},
           {"no_groups", attrs(3, 3, 64), {1, 17}, {40, 17}},
           {"many_groups", attrs(8, 1, 128), {1, 2}, {65, 30}},
           {"dim_128", attrs(4, 4, 128), {1, 20}, {100, 40}},
           {"dim_80", attrs(2, 2, 80), {1, 6}, {20, 22}},
           {"dim_16", attrs(4, 2, 16), {1, 6}, {20, 22}},
           {"dim_256", attrs(2, 1, 256), {1, 6}, {20, 22}},
           {"window_decode", attrs(4, 2, 64, 20), {1, 1, 1}, {90, 20, 5}},
           {"window_prefill", attrs(4, 2, 64, 9), {50, 1}, {60, 70}},
           {"window_one", attrs(2, 2, 64, 1), {1, 4}, {33, 20}},
           {"softcap", attrs(4, 2, 64, 0, 0.5), {1, 12}, {45, 29}},
           {"softcap_window", attrs(4, 2, 64, 17, 1.0), {1, 40}, {45, 41}},
           {"sinks_decode", attrs(4, 2, 64, 20, 0, 4), {1, 1, 1, 1}, {90, 23, 20, 5}},
           {"sinks_prefill", attrs(4, 2, 64, 9, 0, 5), {50, 1}, {60, 70}},
           {"sinks_many", attrs(8, 1, 80, 33, 0.7, 70), {1, 60, 110}, {200, 160, 110}},
           {"sinks_int8", attrs(4, 2, 64, 9, 0, 4), {50, 1}, {60, 70}, DType::kI8},
           {"sinks_fp8", attrs(4, 2, 64, 17, 1.0, 4), {1, 40}, {45, 141}, DType::kE4M3},
           {"dim_96", attrs(4, 2, 96), {1, 6}, {20, 22}},
           {"dim_256_long", attrs(2, 1, 256), {1, 3}, {550, 513}},
           // Devices cut long sequences into pieces and wide groups of heads into slices.
           {"long_decode", attrs(8, 2, 128), {1, 1, 1, 4}, {1030, 512, 513, 700}},
           {"long_chunk", attrs(4, 4, 64), {290, 1}, {600, 530}},
           {"wide_groups", attrs(12, 1, 64), {1, 5}, {530, 40}},
           {"long_window", attrs(4, 2, 64, 300), {1, 3, 1}, {810, 512, 290}},
           {"first_token_int8", attrs(9, 3, 64), {1}, {1}, DType::kI8},
           {"decode_int8", attrs(9, 3, 64), {1}, {131}, DType::kI8},
           {"mixed_int8", attrs(4, 2, 64), {1, 33, 1, 5, 40}, {50, 33, 7, 37, 41}, DType::kI8},
           {"many_groups_int8", attrs(8, 1, 128), {1, 2}, {65, 30}, DType::kI8},
           {"dim_80_int8", attrs(2, 2, 80), {1, 6}, {20, 22}, DType::kI8},
           {"long_decode_int8", attrs(8, 2, 128), {1, 1, 4}, {1030, 512, 700}, DType::kI8},
           {"dim_96_int8", attrs(4, 2, 96), {1, 6}, {20, 22}, DType::kI8},
           {"window_int8", attrs(4, 2, 64, 9), {50, 1}, {60, 70}, DType::kI8},
           {"softcap_int8", attrs(4, 2, 64, 0, 0.5), {1, 12}, {45, 29}, DType::kI8},
           {"decode_fp8", attrs(9, 3, 64), {1}, {131}, DType::kE4M3},
           {"mixed_fp8", attrs(4, 2, 64), {1, 33, 1, 5, 40}, {50, 33, 7, 37, 41}, DType::kE4M3},
           {"many_groups_fp8", attrs(8, 1, 128), {1, 2}, {65, 30}, DType::kE4M3},
           {"long_decode_fp8", attrs(8, 2, 128), {1, 1, 4}, {1030, 512, 700}, DType::kE4M3},
           {"long_window_fp8", attrs(4, 2, 64, 300), {1, 3, 1}, {810, 512, 290}, DType::kE4M3},
           {"dim_80_fp8", attrs(2, 2, 80), {1, 6}, {20, 22}, DType::kE4M3},
           {"softcap_window_fp8", attrs(4, 2, 64, 17, 1.0), {1, 40}, {45, 41}, DType::kE4M3},
       })
    result.push_back(sample_case(s));
  return result;
}

}  // namespace

extern const OpDef kOp_attention;
const OpDef kOp_attention = {
    .name = "attention",
    .infer = infer,
    .reference = reference,
    .cases = cases,
    .reads_state = true,
    .indices = {{1, "query_start", 0}, {2, "context_len"}, {3, "block_table"}},
};

}  // namespace ingot
