#include "ir/graph.h"

#include "base/error.h"
#include "ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ir/sample_graphs.h"

namespace ingot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace sg = sample_graphs;

// The verifier's message for a graph that `damage` broke.
template <typename Damage>
std::string complaint(Damage damage) {
  Graph g = sg::one_layer();
  verify(g);
  damage(g);
  try {
    verify(g);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kBug);
    return e.message();
  }
  return "nothing found";
}

Node& node_of(Graph& g, std::string_view op_name) {
  for (Node& n : g.nodes)
    if (n.op && n.op->name == op_name) return n;
  throw std::runtime_error("no such node");
}

TEST(Verify, UnknownOperand) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes[2].operands[0] = 9999; }),
              HasSubstr("node 2 (linear -> linear."));
}
TEST(Verify, UseBeforeDefinition) {
  EXPECT_THAT(complaint([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }),
              HasSubstr("before it is made"));
}
TEST(Verify, DeletedNode) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes[3].op = nullptr; }), HasSubstr("compact()"));
}
TEST(Verify, TypeNotAsInferred) {
  EXPECT_THAT(complaint([](Graph& g) { g.value(g.nodes[2].results[0]).type.dtype = DType::kF16; }),
              HasSubstr("inferred f32[T,32]"));
}
TEST(Verify, ShapeRuleRefuses) {
  EXPECT_THAT(complaint([](Graph& g) { g.value(g.find("q")).type.dims[1] = 31; }),
              HasSubstr("[op.linear]"));
}
TEST(Verify, CountOfResults) {
  EXPECT_THAT(complaint([](Graph& g) { node_of(g, "kv_append").results = {0}; }),
              HasSubstr("has 1 results, its op makes 0"));
}
TEST(Verify, TwoNames) {
  EXPECT_THAT(complaint([](Graph& g) { g.values[1].name = g.values[0].name; }),
              HasSubstr("two values are named 'ids'"));
}
TEST(Verify, NoName) {
  EXPECT_THAT(complaint([](Graph& g) { g.values[1].name.clear(); }), HasSubstr("has no name"));
}
TEST(Verify, TwoWriters) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes[3].results = g.nodes[2].results; }),
              HasSubstr("second writer"));
}
TEST(Verify, WritesAWeight) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes[2].results = {g.find("tok")}; }),
              HasSubstr("writes 'tok'"));
}
TEST(Verify, WrongProducer) {
  EXPECT_THAT(complaint([](Graph& g) { g.value(g.nodes[2].results[0]).producer = 5; }),
              HasSubstr("whose producer says 5"));
}
TEST(Verify, StateAsTensor) {
  EXPECT_THAT(complaint([](Graph& g) { g.nodes[2].operands[0] = g.find("kv.0"); }),
              HasSubstr("takes a state as a tensor"));
}
TEST(Verify, TensorAsState) {
  EXPECT_THAT(complaint([](Graph& g) { node_of(g, "kv_append").operands[3] = g.find("tok"); }),
              HasSubstr("has no state operand"));
}
TEST(Verify, WeightWithoutFormat) {
  EXPECT_THAT(complaint([](Graph& g) { g.value(g.find("tok")).type.format = nullptr; }),
              HasSubstr("'tok': weights and only they"));
}
TEST(Verify, EmptyState) {
  EXPECT_THAT(complaint([](Graph& g) { g.value(g.find("kv.0")).type.state.kv_heads = 0; }),
              HasSubstr("state 'kv.0' keeps 0 heads"));
}
TEST(Verify, BadDimension) {
  EXPECT_THAT(complaint([](Graph& g) { g.value(g.find("ids")).type.dims[0].scale = -1; }),
              HasSubstr("'ids' has the dimension"));
}
TEST(Verify, OutputIsAWeight) {
  EXPECT_THAT(complaint([](Graph& g) { g.outputs = {g.find("tok")}; }),
              HasSubstr("output 'tok' is a weight"));
}
TEST(Verify, OutputUnknown) {
  EXPECT_THAT(complaint([](Graph& g) { g.outputs = {-1}; }), HasSubstr("output -1"));
}
TEST(Verify, ValueNobodyMakes) {
  EXPECT_THAT(complaint([](Graph& g) { g.values.push_back({.name = "lost"}); }),
              HasSubstr("'lost' has no node"));
}

TEST(Graph, UsersAndReplaceUses) {
  Graph g = sg::empty("g");
  const ValueId x = g.add_input("x", sg::rows(4));
  const ValueId y = g.add_node(op("add"), {}, {x, x})[0];
  const ValueId z = g.add_node(op("add"), {}, {y, x})[0];
  g.outputs = {y};
  EXPECT_THAT(g.users(x), ElementsAre(0, 1));
  EXPECT_TRUE(g.is_output(y));
  g.replace_uses(y, x);
  EXPECT_THAT(g.users(x), ElementsAre(0, 1));
  EXPECT_THAT(g.users(y), ElementsAre());
  EXPECT_TRUE(g.is_output(x));
  EXPECT_FALSE(g.is_output(z));
}

TEST(Graph, CompactDropsWhatNothingNeeds) {
  Graph g = sg::one_layer();
  const std::string before = print(g);
  g.compact();
  EXPECT_EQ(print(g), before) << "nothing to drop";
  const std::size_t nodes = g.nodes.size(), values = g.values.size();
  const ValueId unused = g.add_weight("unused", sg::matrix("f32", 4, 4));
  const ValueId x = g.add_input("extra", sg::rows(4));
  g.add_node(op("linear"), write_attrs(LinearAttrs{}), {x, unused});
  verify(g);
  g.compact();
  verify(g);
  EXPECT_EQ(g.nodes.size(), nodes);
  EXPECT_EQ(g.values.size(), values);
  EXPECT_EQ(print(g), before);
}

TEST(Graph, CompactKeepsStateWritesOnly) {
  Graph g = sg::one_layer();
  g.outputs.clear();
  g.compact();
  verify(g);
  EXPECT_EQ(g.nodes.back().op->name, "kv_append");
  EXPECT_EQ(g.find("gate"), kNone);
  EXPECT_NE(g.find("k"), kNone);
  EXPECT_EQ(g.find("q"), kNone);
}

TEST(Graph, CompactFindsDeletedProducers) {
  Graph g = sg::one_layer();
  node_of(g, "attention").op = nullptr;
  EXPECT_THROW(g.compact(), Error);
}

TEST(Graph, PlainWeightsGetTheirFormat) {
  Graph g;
  ValueType type;
  type.dims = {4};
  EXPECT_EQ(g.type(g.add_weight("w", type)).format, &weight_format("f32"));
}

TEST(Types, TextAndSizes) {
  DimValues v;
  v[Symbol::kTokens] = 5;
  v[Symbol::kSequences] = 2;
  Dim d(Symbol::kSequences);
  d.offset = 1;
  EXPECT_EQ(to_string(d), "S+1");
  EXPECT_EQ(d.at(v), 3);
  EXPECT_EQ(to_string(Dim(Symbol::kTokens, 2)), "2T");
  EXPECT_EQ(to_string(Dim(64)), "64");
  EXPECT_EQ(to_string(sg::rows(6)), "f32[T,6]");
  EXPECT_EQ(sg::rows(6, DType::kBF16).bytes_at(v), 60u);
  EXPECT_EQ(sg::rows(6).at(v), (Shape{5, 6}));
  ValueType huge = sg::rows(std::int64_t{1} << 62);
  EXPECT_THROW(huge.bytes_at(v), Error);
}

TEST(Attrs, SortedAndTyped) {
  Attrs a;
  a.set("z", std::int64_t{1});
  a.set("a", true);
  a.set("z", 2.5);
  ASSERT_EQ(a.entries().size(), 2u);
  EXPECT_EQ(a.entries()[0].first, "a");
  EXPECT_EQ(std::get<double>(*a.find("z")), 2.5);
  EXPECT_EQ(a.find("b"), nullptr);
  const LinearAttrs l{.bias = true, .out = "f16"};
  EXPECT_EQ(read_attrs<LinearAttrs>(write_attrs(l)).out, "f16");
  EXPECT_THROW(read_attrs<RmsNormAttrs>(a), Error);
}

}  // namespace
}  // namespace ingot
