#include "ir/pattern.h"

#include "base/error.h"
#include "ops/ops.h"
#include "ops/reference/compose.h"
#include "ops/reference/evaluate.h"

#include <gtest/gtest.h>

#include "tests/ir/sample_graphs.h"
#include <algorithm>
#include <cmath>
#include <random>

namespace ingot {
namespace {

namespace sg = sample_graphs;
using namespace pattern;

const Rule& add_rms_norm() {
  static const Rule rule = {
      .name = "add_rms_norm",
      .roots = {node("rms_norm",
                     {node("add", {any("x"), any("y")}).as("sum").may_escape(), weight("w")})
                    .call("norm")},
      .build = [](Rewrite& r) {
        const auto made =
            r.emit(op("add_rms_norm"), r.call("norm").attrs, {r["x"], r["y"], r["w"]});
        r.replace("sum", made[0]);
        r.replace_root(made[1]);
      }};
  return rule;
}

const Rule& linear_add() {
  static const Rule rule = {
      .name = "linear_residual",
      .roots = {node("add",
                     {node("linear", {any("x"), weight("w")}).call("linear"), any("residual")})
                    .commutes()},
      .build = [](Rewrite& r) {
        auto attrs = read_attrs<LinearAttrs>(r.call("linear").attrs);
        attrs.residual = true;
        r.replace_root(
            r.emit(op("linear"), write_attrs(attrs), {r["x"], r["w"], r["residual"]})[0]);
      }};
  return rule;
}

const Rule& gate_up() {
  static const Rule rule = {
      .name = "gate_up",
      .roots = {node("swiglu", {node("linear", {any("x"), weight("g")}).call("linear"),
                                node("linear", {any("x"), weight("u")})})},
      .where =
          [](const Match& m) {
            return m.type("g") == m.type("u") &&
                   m.type("g").dims[0].offset % kGateUpInterleave == 0;
          },
      .build =
          [](Rewrite& r) {
            ValueType type = r.type("g");
            type.dims[0].offset *= 2;
            const ValueId merged = r.add_weight(
                r.value("g").name + "+" + r.value("u").name, type,
                {.parts = {r.value("g").name, r.value("u").name}, .interleave = kGateUpInterleave});
            auto attrs = read_attrs<LinearAttrs>(r.call("linear").attrs);
            attrs.swiglu = true;
            r.replace_root(r.emit(op("linear"), write_attrs(attrs), {r["x"], merged})[0]);
          }};
  return rule;
}

// Three sibling linears: several roots that share a capture.
const Rule& qkv() {
  static const Rule rule = {
      .name = "qkv",
      .roots = {node("linear", {any("x"), weight("q")}).call("linear"),
                node("linear", {any("x"), weight("k")}), node("linear", {any("x"), weight("v")})},
      .where =
          [](const Match& m) {
            const Graph& g = *m.graph;
            return g.value(m["q"]).name == "q" && g.value(m["k"]).name == "k" &&
                   g.value(m["v"]).name == "v";
          },
      .build =
          [](Rewrite& r) {
            SplitAttrs split;
            WeightRecipe recipe;
            ValueType type = r.type("q");
            type.dims[0].offset = 0;
            for (const char* name : {"q", "k", "v"}) {
              split.sizes.push_back(r.type(name).dims[0].offset);
              type.dims[0].offset += split.sizes.back();
              recipe.parts.push_back(r.value(name).name);
            }
            const ValueId merged = r.add_weight("qkv", type, recipe);
            const auto x = r.emit(op("linear"), r.call("linear").attrs, {r["x"], merged});
            const auto parts = r.emit(op("split"), write_attrs(split), {x[0]});
            for (int i = 0; i < 3; ++i) r.replace_root(parts[static_cast<std::size_t>(i)], i);
          }};
  return rule;
}

// A DAG with two roots: both read results of the same split.
const Rule& rope_kv_append() {
  static const Rule rule = {
      .name = "rope_kv_append",
      .roots = {node("kv_append",
                     {node("rope", {node("split", {any("qkv")}).call("split").result(1),
                                    any("position"), any("freq"), any("row")})
                          .call("rope"),
                      node("split", {any("qkv")}).call("split").result(2), any("slots"),
                      any("state")}),
                node("rope", {node("split", {any("qkv")}).call("split").result(0), any("position"),
                              any("freq"), any("row")})},
      .build = [](Rewrite& r) {
        const auto rope = read_attrs<RopeAttrs>(r.call("rope").attrs);
        const auto sizes = read_attrs<SplitAttrs>(r.call("split").attrs).sizes;
        const RopeKvAppendAttrs attrs{
            .heads = sizes[0] / rope.head_dim, .kv_heads = sizes[1] / rope.head_dim, .rope = rope};
        r.replace_root(
            r.emit(op("rope_kv_append"), write_attrs(attrs),
                   {r["qkv"], r["position"], r["freq"], r["row"], r["slots"], r["state"]})[0],
            1);
      }};
  return rule;
}

std::vector<std::string> op_names(const Graph& g) {
  std::vector<std::string> names;
  for (const Node& n : g.nodes) names.emplace_back(n.op->name);
  return names;
}

RefTensor random_of(const ValueType& type, const DimValues& dims, std::uint64_t seed) {
  RefTensor t = make_ref(type.at(dims));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.3f);
  for (float& x : t.f) x = normal(random);
  return t;
}

// Logits of one_layer(): a chunk of 5 tokens after 3 cached ones, and a sequence of its own.
std::vector<float> logits(const Graph& g) {
  Evaluation step;
  step.dims[Symbol::kTokens] = 7;
  step.dims[Symbol::kSequences] = 2;
  step.dims[Symbol::kRows] = 2;
  step.dims[Symbol::kPages] = 1;
  const auto put = [&](const char* name, Shape shape, std::vector<std::int32_t> values) {
    RefTensor t;
    t.shape = shape;
    t.i = std::move(values);
    step.inputs[name] = t;
  };
  put("ids", {7}, {3, 49, 0, 7, 7, 21, 30});
  put("positions", {7}, {3, 4, 5, 6, 7, 0, 1});
  put("slots", {7}, {19, 20, 21, 22, 23, 0, 1});
  put("rope_row", {7}, {0, 0, 0, 0, 0, 0, 0});
  put("query_start", {3}, {0, 5, 7});
  put("context_len", {2}, {8, 2});
  put("block_table", {2, 1}, {1, 0});
  put("rows", {2}, {4, 6});
  std::map<std::string, RefTensor> parts;
  const auto part = [&](std::string_view name) {
    const Graph plain = sg::one_layer();
    return random_of(plain.type(plain.find(name)), {}, std::hash<std::string_view>{}(name));
  };
  step.weights = [&](const Value& v) -> const RefTensor& {
    return parts.try_emplace(v.name, assemble_weight(v, part)).first->second;
  };
  std::map<std::string, RefState> states;
  RefState& kv = states["kv.0"] = make_ref_state({.kv_heads = 1, .head_dim = 16}, 2, 16);
  for (std::size_t i = 0; i < kv.k.size(); ++i) {
    kv.k[i] = std::sin(static_cast<float>(i));
    kv.v[i] = std::cos(static_cast<float>(i));
  }
  step.states = &states;
  return evaluate(g, step).at(0).f;
}

void expect_same_meaning(const Graph& g) {
  const std::vector<float> wanted = logits(sg::one_layer()), got = logits(g);
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], 1e-5) << "logit " << i;
    largest = std::max<double>(largest, std::fabs(wanted[i]));
  }
  EXPECT_GT(largest, 0.1) << "the oracle says something";
}

TEST(Pattern, AddRmsNorm) {
  Graph g = sg::one_layer();
  EXPECT_EQ(rewrite(g, add_rms_norm()), 2);
  verify(g);
  EXPECT_EQ(rewrite(g, add_rms_norm()), 0);
  expect_same_meaning(g);
}

TEST(Pattern, LinearResidualCommutes) {
  Graph g = sg::one_layer();
  EXPECT_EQ(rewrite(g, linear_add()), 2);
  for (const std::string& name : op_names(g)) EXPECT_NE(name, "add");
  expect_same_meaning(g);
}

TEST(Pattern, GateUp) {
  Graph g = sg::one_layer();
  EXPECT_EQ(rewrite(g, gate_up()), 1);
  const Value& merged = g.value(g.find("gate+up"));
  EXPECT_EQ(merged.recipe.interleave, kGateUpInterleave);
  EXPECT_EQ(g.find("gate"), kNone) << "unused weights go";
  expect_same_meaning(g);
}

TEST(Pattern, SiblingsAndDagWithTwoRoots) {
  Graph g = sg::one_layer();
  EXPECT_EQ(rewrite(g, qkv()), 1);
  expect_same_meaning(g);
  EXPECT_EQ(rewrite(g, rope_kv_append()), 1);
  expect_same_meaning(g);
  const std::vector<std::string> names = op_names(g);
  EXPECT_EQ(
      (std::vector<std::string>{names.begin(), names.begin() + 5}),
      (std::vector<std::string>{"embed", "rms_norm", "linear", "rope_kv_append", "attention"}));
}

TEST(Pattern, AllRulesInAnyOrderKeepTheMeaning) {
  std::vector<const Rule*> rules = {&add_rms_norm(), &linear_add(), &gate_up(), &qkv(),
                                    &rope_kv_append()};
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    std::shuffle(rules.begin(), rules.end(), random);
    Graph g = sg::one_layer();
    for (const Rule* rule : rules) rewrite(g, *rule);
    expect_same_meaning(g);
    EXPECT_TRUE(parse_graph(print(g), all_ops()) == g);
  }
}

TEST(Pattern, InnerValueUsedElsewhereIsLeftAlone) {
  Graph g = sg::empty("g");
  const ValueId x = g.add_input("x", sg::rows(4));
  const ValueId w = g.add_weight("w", sg::matrix("f32", 4, 4));
  const ValueId y = g.add_node(op("linear"), write_attrs(LinearAttrs{}), {x, w})[0];
  const ValueId z = g.add_node(op("add"), {}, {y, x})[0];
  g.outputs = {z, y};
  EXPECT_EQ(rewrite(g, linear_add()), 0) << "the linear's result is an output";
  g.outputs = {g.add_node(op("add"), {}, {z, y})[0]};
  EXPECT_EQ(rewrite(g, linear_add()), 0) << "the linear's result has two users";
}

// sum is read between add and rms_norm: the new node has to stand before that reader.
TEST(Pattern, ReplacementMovesUpToItsFirstUse) {
  Graph g = sg::empty("g");
  const ValueId x = g.add_input("x", sg::rows(4));
  const ValueId w = g.add_weight("w", sg::vector(4));
  const ValueId sum = g.add_node(op("add"), {}, {x, x})[0];
  const ValueId other = g.add_node(op("swiglu"), {}, {sum, x})[0];
  const ValueId n = g.add_node(op("rms_norm"), write_attrs(RmsNormAttrs{}), {sum, w})[0];
  g.outputs = {other, n};
  EXPECT_EQ(rewrite(g, add_rms_norm()), 1);
  EXPECT_EQ(op_names(g), (std::vector<std::string>{"add_rms_norm", "swiglu"}));
}

// The rule replaces the linear's result too, but a reader of that makes the other operand.
TEST(Pattern, WithoutAPlaceNothingHappens) {
  const Rule rule = {
      .name = "needs_both",
      .roots = {node("add",
                     {node("linear", {any("x"), weight("w")}).as("m").may_escape(), any("r")})},
      .build = [](Rewrite& r) {
        const ValueId made = r.emit(op("swiglu"), {}, {r["x"], r["r"]})[0];
        r.replace("m", made);
        r.replace_root(made);
      }};
  for (const bool r_reads_m : {false, true}) {
    Graph g = sg::empty("g");
    const ValueId x = g.add_input("x", sg::rows(4));
    const ValueId w = g.add_weight("w", sg::matrix("f32", 4, 4));
    const ValueId m = g.add_node(op("linear"), write_attrs(LinearAttrs{}), {x, w})[0];
    const ValueId r = g.add_node(op("swiglu"), {}, {r_reads_m ? m : x, x})[0];
    g.outputs = {g.add_node(op("add"), {}, {m, r})[0]};
    const std::string before = print(g);
    EXPECT_EQ(rewrite(g, rule), r_reads_m ? 0 : 1);
    EXPECT_EQ(print(g) == before, r_reads_m);
  }
}

// The rule makes an attention that needs a value made behind an append to the same state: it would
// read what the old attention did not see. With the value made before, it goes where the old one
// stood, although the root is behind the append.
TEST(Pattern, StateAccessesKeepTheirOrder) {
  const Rule rule = {
      .name = "add_to_q",
      .roots = {node("add",
                     {node("attention", {any("q"), any("s"), any("c"), any("t"), any("state")})
                          .call("attention"),
                      any("r")})},
      .build = [](Rewrite& r) {
        const ValueId q = r.emit(op("swiglu"), {}, {r["q"], r["r"]})[0];
        r.replace_root(r.emit(op("attention"), r.call("attention").attrs,
                              {q, r["s"], r["c"], r["t"], r["state"]})[0]);
      }};
  for (const bool r_is_late : {false, true}) {
    Graph g = sg::empty("g");
    const ValueId k = g.add_input("k", sg::rows(16));
    const ValueId slots = g.add_input("slots", sg::ints({Symbol::kTokens}));
    Dim starts(Symbol::kSequences);
    starts.offset = 1;
    const ValueId start = g.add_input("start", sg::ints({starts}));
    const ValueId context = g.add_input("context", sg::ints({Symbol::kSequences}));
    const ValueId table = g.add_input("table", sg::ints({Symbol::kSequences, Symbol::kPages}));
    const ValueId state = g.add_state("kv", {.kv_heads = 1, .head_dim = 16, .dtype = DType::kF32});
    const AttentionAttrs attrs{.heads = 1, .kv_heads = 1, .head_dim = 16, .scale = 1};
    ValueId r = g.add_node(op("swiglu"), {}, {k, k})[0];
    const ValueId a =
        g.add_node(op("attention"), write_attrs(attrs), {k, start, context, table, state})[0];
    g.add_node(op("kv_append"), {}, {k, k, slots, state});
    if (r_is_late) r = g.add_node(op("swiglu"), {}, {k, r})[0];
    g.outputs = {g.add_node(op("add"), {}, {a, r})[0]};
    EXPECT_EQ(rewrite(g, rule), r_is_late ? 0 : 1);
    const std::vector<std::string> names = op_names(g);
    EXPECT_LT(std::find(names.begin(), names.end(), "attention"),
              std::find(names.begin(), names.end(), "kv_append"));
  }
}

TEST(Pattern, EndlessRulesAreABug) {
  Graph g = sg::empty("g");
  const ValueId x = g.add_input("x", sg::rows(4));
  g.outputs = {g.add_node(op("add"), {}, {x, x})[0]};
  const Rule swap = {
      .name = "swap", .roots = {node("add", {any("x"), any("y")})}, .build = [](Rewrite& r) {
        r.replace_root(r.emit(op("add"), {}, {r["y"], r["x"]})[0]);
      }};
  EXPECT_THROW(rewrite(g, swap), Error);
}

TEST(Pattern, RootLeftWithoutReplacementIsABug) {
  Graph g = sg::one_layer();
  const Rule rule = {
      .name = "forgets", .roots = {node("swiglu", {any("g"), any("u")})}, .build = [](Rewrite&) {}};
  EXPECT_THROW(rewrite(g, rule), Error);
}

TEST(Pattern, PredicatesOnNodes) {
  Graph g = sg::one_layer();
  Rule rule = add_rms_norm();
  rule.roots = {rule.roots[0].where(
      [](const Graph&, const Node& n) { return std::get<double>(*n.attrs.find("eps")) > 1.0; })};
  EXPECT_EQ(rewrite(g, rule), 0);
}

}  // namespace
}  // namespace ingot
