#include "base/error.h"
#include "ops/ops.h"
#include "passes/memory_plan.h"
#include "passes/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/passes/tiny_decoder.h"
#include <cmath>
#include <random>

namespace ingot {
namespace test {

TinyDecoder::TinyDecoder(const Shape& shape) {
  config_ = {.family = "llama",
             .vocab = 37,
             .hidden = 32,
             .layers = shape.layers,
             .heads = 4,
             .kv_heads = 2,
             .head_dim = 8,
             .intermediate = 48,
             .max_position = 64};
  config_.windows.assign(static_cast<std::size_t>(shape.layers), 0);
  config_.windows.back() = 3;
  config_.rope = {.rotary_dim = 8};
  if (shape.biases) config_.qkv_bias = config_.o_bias = config_.mlp_bias = Presence::kRequired;
  config_.tied = shape.tied;

  const Family& family = family_for_architecture("LlamaForCausalLM");
  nn::SlotTypes types;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto add = [&](const std::string& name, const ingot::Shape& dims, float scale, float mean) {
    ValueType type{.format = &weight_format("f32")};
    for (const std::int64_t d : dims.dims()) type.dims.emplace_back(d);
    types.emplace(name, type);
    RefTensor t{.shape = dims};
    for (std::int64_t i = 0; i < dims.elements(); ++i) t.f.push_back(mean + scale * normal(random));
    slots_[name] = std::move(t);
  };
  for (const SlotSpec& slot : family.slots(config_)) {
    const bool norm = slot.name.ends_with("norm");
    add(slot.name, slot.shape, norm ? 0.1f : 0.3f, norm ? 1.0f : 0.0f);
  }
  const RopeTables tables = rope_tables(config_.rope, config_.max_position, 64);
  add("rope.inv_freq", {1, 4}, 0, 0);
  slots_["rope.inv_freq"].f = tables.rows[0];
  nn::BuilderOptions options{.activation = DType::kF32, .kv = DType::kF32};
  options.max.values = {1, 16, 4, 4, 4};
  graph_ = family.build(config_, options, types, tables);
}

RefTensor TinyDecoder::part(std::string_view slot) const {
  return slots_.at(std::string(slot));
}

RefTensor TinyDecoder::logits(const Graph& graph) const {
  Evaluation step;
  step.dims.values = {1, 6, 2, 2, 1};
  const auto ints = [](ingot::Shape shape, std::vector<std::int32_t> values) {
    return RefTensor{.shape = shape, .f = {}, .i = std::move(values)};
  };
  const std::map<std::string, RefTensor> all = {
      {"ids", ints({6}, {3, 1, 4, 1, 5, 9})},        {"positions", ints({6}, {0, 1, 2, 3, 4, 0})},
      {"slots", ints({6}, {32, 33, 34, 35, 36, 0})}, {"rope_row", ints({6}, {0, 0, 0, 0, 0, 0})},
      {"query_start", ints({3}, {0, 5, 6})},         {"context_len", ints({2}, {5, 1})},
      {"block_table", ints({2, 1}, {1, 0})},         {"rows", ints({2}, {4, 5})}};
  std::map<std::string, RefState> states;
  for (const Value& v : graph.values) {
    if (v.kind == ValueKind::kInput) step.inputs[v.name] = all.at(v.name);
    if (v.kind == ValueKind::kState) states[v.name] = make_ref_state(v.type.state, 2, 32);
  }
  std::map<std::string, RefTensor> assembled;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::kWeight)
      assembled[v.name] = assemble_weight(v, [&](std::string_view name) { return part(name); });
  step.weights = [&](const Value& v) -> const RefTensor& { return assembled.at(v.name); };
  step.states = &states;
  return evaluate(graph, step)[0];
}

std::vector<float> TinyDecoder::rows(const RefTensor& logits, const std::vector<int>& which) {
  std::vector<float> values;
  const auto vocab = static_cast<std::size_t>(logits.shape[1]);
  for (const int row : which)
    values.insert(values.end(), logits.f.begin() + static_cast<std::ptrdiff_t>(row * vocab),
                  logits.f.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab));
  return values;
}

}  // namespace test

namespace {

using test::TinyDecoder;

int count(const Graph& graph, std::string_view op_name) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& n) { return n.op->name == op_name; }));
}

struct Piped {
  Graph graph;
  std::vector<PassReport> reports;
};

Piped pipe(const Graph& graph, std::vector<std::string> skip = {}) {
  const auto device = make_null_device();
  CodeStore code;
  PassContext context(*device, ComputeMode::kF32, code);
  Piped result{graph, {}};
  result.reports = run_pipeline(result.graph, context, skip);
  return result;
}

void expect_same_meaning(const TinyDecoder& decoder, const Graph& after) {
  const auto wanted = TinyDecoder::rows(decoder.logits(decoder.graph()), {4, 5});
  const RefTensor got = decoder.logits(after);
  ASSERT_EQ(got.f.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got.f[i], wanted[i], 1e-4f) << i;
}

class PassesTest : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  TinyDecoder decoder_{
      {.layers = 2, .biases = std::get<0>(GetParam()), .tied = std::get<1>(GetParam())}};
};

TEST_P(PassesTest, WholePipelineKeepsTheMeaning) {
  expect_same_meaning(decoder_, pipe(decoder_.graph()).graph);
}

TEST_P(PassesTest, EveryPassCanBeSwitchedOff) {
  for (const Pass& pass : pipeline()) {
    SCOPED_TRACE(pass.name);
    const Piped piped = pipe(decoder_.graph(), {std::string(pass.name)});
    for (const PassReport& r : piped.reports) EXPECT_EQ(r.skipped, r.name == pass.name);
    if (pass.name != "select_rows") expect_same_meaning(decoder_, piped.graph);
  }
}

TEST_P(PassesTest, FusedGraphPrintsAndParsesBack) {
  const Graph fused = pipe(decoder_.graph()).graph;
  EXPECT_EQ(print(parse_graph(print(fused), all_ops())), print(fused));
}

TEST_P(PassesTest, FusesEverythingALlamaHas) {
  const Graph g = pipe(decoder_.graph()).graph;
  EXPECT_EQ(count(g, "linear"), 2 * 4 + 1);  // qkv, o, gate+up, down; head
  EXPECT_EQ(count(g, "rope_kv_append"), 2);
  EXPECT_EQ(count(g, "attention"), 2);
  EXPECT_EQ(count(g, "rms_norm"), 2 * 2 + 1);
  EXPECT_EQ(count(g, "gather_rows"), 1);
  for (const char* gone : {"add", "split", "rope", "kv_append", "swiglu", "add_rms_norm"})
    EXPECT_EQ(count(g, gone), 0) << gone;
}

TEST_P(PassesTest, WithoutEpiloguesTheAddsGoIntoTheNorms) {
  const Graph g = pipe(decoder_.graph(), {"fuse_residual"}).graph;
  EXPECT_EQ(count(g, "add_rms_norm"), 3);  // two in the second layer, one in the first
  expect_same_meaning(decoder_, g);
}

INSTANTIATE_TEST_SUITE_P(Decoders, PassesTest, testing::Combine(testing::Bool(), testing::Bool()));

TEST(PipelineTest, RefusesToSkipWhatIsNoPass) {
  TinyDecoder decoder({.layers = 1});
  EXPECT_THROW(pipe(decoder.graph(), {"fuse_everything"}), Error);
}

TEST(SelectRowsTest, OnlyTheHeadHasRows) {
  const Graph g = pipe(TinyDecoder({.layers = 1}).graph()).graph;
  const ValueId logits = g.outputs[0];
  EXPECT_EQ(to_string(g.type(logits)), "f32[R,37]");
  const MemoryPlan memory = plan_memory(g);
  EXPECT_EQ(memory.head_begin,
            static_cast<NodeId>(g.nodes.size()) - 3);  // gather_rows, rms_norm, linear
}

TEST(MemoryPlanTest, BuffersAliveTogetherNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals(1 + random() % 24);
    for (Interval& i : intervals) {
      i.bytes = 1 + static_cast<std::int64_t>(random() % 5000);
      i.first = static_cast<std::int32_t>(random() % 20);
      i.last = i.first + static_cast<std::int32_t>(random() % 6);
    }
    const Placement p = place(intervals);
    EXPECT_GE(p.total, p.lower_bound);
    for (std::size_t a = 0; a < intervals.size(); ++a) {
      EXPECT_EQ(p.offsets[a] % kArenaAlignment, 0);
      EXPECT_LE(p.offsets[a] + intervals[a].bytes, p.total);
      for (std::size_t b = a + 1; b < intervals.size(); ++b) {
        const bool together =
            intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
        const bool apart = p.offsets[a] + intervals[a].bytes <= p.offsets[b] ||
                           p.offsets[b] + intervals[b].bytes <= p.offsets[a];
        EXPECT_TRUE(!together || apart) << round << " " << a << " " << b;
      }
    }
  }
}

TEST(MemoryPlanTest, ReachesTheLowerBoundOnATransformer) {
  const Graph g = pipe(TinyDecoder({.layers = 4}).graph()).graph;
  const MemoryPlan memory = plan_memory(g);
  EXPECT_LE(static_cast<double>(memory.arena_bytes),
            1.05 * static_cast<double>(memory.lower_bound));
}

// What the head reads of the body must survive a run of the head: it runs once for every slice of
// rows.
TEST(MemoryPlanTest, TheHeadDoesNotOverwriteWhatItReads) {
  const Graph g = pipe(TinyDecoder({.layers = 2}).graph()).graph;
  const MemoryPlan memory = plan_memory(g);
  const Node& gather = g.nodes[static_cast<std::size_t>(memory.head_begin)];
  const ValueId hidden = gather.operands[0];
  const auto begin = memory.offsets[static_cast<std::size_t>(hidden)];
  const auto end = begin + static_cast<std::int64_t>(g.type(hidden).bytes_at(g.max));
  for (std::size_t n = static_cast<std::size_t>(memory.head_begin); n < g.nodes.size(); ++n) {
    for (const ValueId r : g.nodes[n].results) {
      const auto at = memory.offsets[static_cast<std::size_t>(r)];
      const auto stop = at + static_cast<std::int64_t>(g.type(r).bytes_at(g.max));
      EXPECT_TRUE(stop <= begin || at >= end);
    }
  }
}

}  // namespace
}  // namespace ingot
