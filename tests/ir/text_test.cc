#include "base/error.h"
#include "ir/graph.h"
#include "ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ir/sample_graphs.h"
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace ingot {
namespace {

using ::testing::HasSubstr;
namespace sg = sample_graphs;

void expect_round_trip(const Graph& g) {
  const std::string text = print(g);
  Graph parsed;
  ASSERT_NO_THROW(parsed = parse_graph(text, all_ops())) << text;
  EXPECT_EQ(print(parsed), text);
  EXPECT_TRUE(parsed == g);
  EXPECT_NO_THROW(verify(parsed));
}

TEST(GraphText, OneLayerRoundTrips) {
  const Graph g = sg::one_layer();
  verify(g);
  expect_round_trip(g);
}

TEST(GraphText, GoldenForm) {
  Graph g = sg::empty("tiny");
  const ValueId ids = g.add_input("ids", sg::ints({Symbol::kTokens}));
  const ValueId table = g.add_weight("tok.weight", sg::matrix("f32", 8, 4),
                                     {.parts = {"a.weight", "odd name"}, .interleave = 2});
  const ValueId state = g.add_state("kv.0", {.kv_heads = 1, .head_dim = 4, .window = 7});
  const ValueId h =
      g.add_node(op("embed"), write_attrs(EmbedAttrs{.out = "bf16"}), {ids, table}, {"h"})[0];
  const auto parts =
      g.add_node(op("split"), write_attrs(SplitAttrs{.sizes = {3, 1}}), {h}, {"x", "y"});
  g.add_node(op("kv_append"), {}, {h, h, ids, state});
  g.outputs = {parts[1], h};
  EXPECT_EQ(print(g), R"(graph tiny (T<=512, S<=8, R<=8, P<=64)
input %ids : i32[T]
weight @tok.weight : f32[8,4] from [a.weight, "odd name"] interleave 2
state $kv.0 : kv(heads=1, dim=4, dtype=bf16, window=7)
%h = embed %ids, @tok.weight {out="bf16"} : bf16[T,4]
%x, %y = split %h {sizes=[3, 1]} : bf16[T,3], bf16[T,1]
kv_append %h, %h, %ids, $kv.0
output %y, %h
)");
  expect_round_trip(g);
}

TEST(GraphText, StatesOfEveryTypeRoundTrip) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kE4M3}) {
    Graph g = sg::empty("states");
    const ValueId x = g.add_input("x", sg::rows(8));
    const ValueId slots = g.add_input("slots", sg::ints({Symbol::kTokens}));
    const ValueId state = g.add_state("kv.0", {.kv_heads = 2, .head_dim = 4, .dtype = dtype});
    g.add_node(op("kv_append"), {}, {x, x, slots, state});
    g.outputs = {x};
    EXPECT_THAT(print(g), HasSubstr(fmt::format("dtype={},", dtype_name(dtype))));
    expect_round_trip(g);
  }
}

TEST(GraphText, CommentsAndBlankLines) {
  const Graph g = parse_graph(
      "# made by hand\n\n  graph g (T<=4, S<=1,R<=1, P<=1)  # bounds\n\n"
      "input %x : f32[T,4] # here\n\n%y = add %x, %x : f32[ T , 4 ]\r\noutput %y",
      all_ops());
  EXPECT_EQ(g.nodes.size(), 1u);
  EXPECT_EQ(g.max[Symbol::kTokens], 4);
}

// An op that takes any attributes: they must come back bit by bit.
std::vector<ValueType> infer_one(const Attrs&, std::span<const ValueType> operands) {
  return {operands.empty() ? sg::rows(1) : operands[0]};
}
const OpDef kAnything = {
    .name = "anything", .infer = infer_one, .reference = nullptr, .cases = nullptr};
const OpDef* const kAnyOps[] = {&kAnything};

std::string random_name(std::mt19937& random) {
  static constexpr std::string_view kOdd = "ab.9_/- \"\\#%@$:,=[]{}()\n\t\x01\x7f\xc3\xa9\xff";
  std::string name;
  for (std::size_t i = 0; i < 1 + random() % 6; ++i) name += kOdd[random() % kOdd.size()];
  return name;
}

AttrValue random_attr(std::mt19937& random) {
  std::mt19937_64 wide(random());
  switch (random() % 6) {
    case 0:
      return random() % 2 == 0;
    case 1:
      return static_cast<std::int64_t>(wide());
    case 2: {
      double value = 0;
      do value = std::bit_cast<double>(wide());
      while (std::isnan(value));
      return value;
    }
    case 3: {
      static const double kSpecial[] = {0.0,
                                        -0.0,
                                        1.0,
                                        -1.0,
                                        1e300,
                                        5e-324,
                                        0.1,
                                        1e22,
                                        123456789.0,
                                        std::numeric_limits<double>::infinity(),
                                        -std::numeric_limits<double>::infinity()};
      return kSpecial[random() % std::size(kSpecial)];
    }
    case 4:
      return random_name(random);
    default: {
      std::vector<std::int64_t> list(random() % 4);
      for (std::int64_t& v : list) v = static_cast<std::int64_t>(wide());
      return list;
    }
  }
}

Dim random_dim(std::mt19937& random) {
  if (random() % 2 == 0) return Dim(static_cast<std::int64_t>(random() % 1000));
  Dim d(static_cast<Symbol>(1 + random() % 4), static_cast<std::int64_t>(random() % 3));
  d.offset = static_cast<std::int64_t>(random() % 5) - 2;
  return d;
}

Graph random_graph(unsigned seed) {
  std::mt19937 random(seed);
  Graph g = sg::empty(random() % 4 == 0 ? "" : random_name(random));
  const auto unique = [&] { return random_name(random) + std::to_string(g.values.size()); };
  const auto type = [&] {
    ValueType t;
    t.dtype = static_cast<DType>(random() % 10);
    for (std::size_t i = random() % 5; i > 0; --i) t.dims.push_back(random_dim(random));
    return t;
  };
  std::vector<ValueId> tensors = {g.add_input(unique(), type())};
  for (std::size_t i = random() % 4; i > 0; --i) tensors.push_back(g.add_input(unique(), type()));
  for (std::size_t i = random() % 4; i > 0; --i) {
    WeightRecipe recipe;
    for (std::size_t p = random() % 3; p > 0; --p) recipe.parts.push_back(random_name(random));
    recipe.interleave = static_cast<std::int64_t>(random() % 3) * 8;
    tensors.push_back(g.add_weight(unique(), sg::matrix("f32", 1 + random() % 50, 3), recipe));
  }
  if (random() % 2 == 0)
    g.add_state(unique(), {.kv_heads = 1 + static_cast<std::int64_t>(random() % 9),
                           .head_dim = 64,
                           .dtype = DType::kE4M3,
                           .window = static_cast<std::int64_t>(random() % 3),
                           .sink_tokens = static_cast<std::int64_t>(random() % 3)});
  const ValueId first_input = tensors[0];
  for (std::size_t n = random() % 10; n > 0; --n) {
    Attrs attrs;
    for (std::size_t a = random() % 5; a > 0; --a)
      attrs.set("a" + std::to_string(random() % 9), random_attr(random));
    std::vector<ValueId> operands = {first_input};
    for (std::size_t o = random() % 3; o > 0; --o)
      operands.push_back(tensors[random() % tensors.size()]);
    if (random() % 8 == 0) operands.clear();
    tensors.push_back(g.add_node(kAnything, attrs, operands, {unique()})[0]);
    if (random() % 3 == 0) g.outputs.push_back(tensors.back());
  }
  return g;
}

TEST(GraphText, RandomGraphsRoundTrip) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Graph g = random_graph(seed);
    const std::string text = print(g);
    Graph parsed;
    ASSERT_NO_THROW(parsed = parse_graph(text, kAnyOps)) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print(parsed), text) << "seed " << seed;
    ASSERT_EQ(parsed.nodes.size(), g.nodes.size());
    for (std::size_t n = 0; n < g.nodes.size(); ++n)
      ASSERT_TRUE(parsed.nodes[n].attrs == g.nodes[n].attrs) << "seed " << seed;
  }
}

struct BadText {
  const char* text;
  const char* says;
};

TEST(GraphText, ErrorsNameLineColumnAndThing) {
  const std::string head = "graph g (T<=4, S<=1, R<=1, P<=1)\n";
  const std::vector<BadText> cases = {
      {"input %x f32[T]", "line 2, column 10: wanted ':', got 'f'"},
      {"input %x : f33[T]", "line 2, column 12: unknown dtype 'f33'"},
      {"input %x : f32[T,1,2,3,4]", "more than 4 dimensions"},
      {"input %x : f32[Q]", "line 2, column 16: wanted a dimension"},
      {"input %x : f32[99999999999999]", "wanted 0 to"},
      {"input %x : f32[999999999999999999999999]", "wanted a dimension, got '9999"},
      {"input %x : f32[T]\ninput %x : f32[T]", "line 3, column 1: 'x' is already defined"},
      {"input @x : f32[T]", "line 2, column 7: wanted '%'"},
      {"input %\"\" : f32[T]", "a name is empty"},
      {"input %\"abc", "string without end"},
      {"input %\"a\\q\" : f32[T]", "unknown escape"},
      {"input %\"a\\xg0\" : f32[T]", "hexadecimal"},
      {"weight @w : q9_9[2,2]", "unknown weight format 'q9_9'"},
      {"weight @w : f32[2,2] from []", "wanted a tensor's name"},
      {"weight @w : f32[2,2] interleave 0", "rows to interleave is 0"},
      {"state $s : kv(heads=0, dim=1, dtype=bf16, window=0)", "heads is 0"},
      {"state $s : kv(dim=1)", "wanted 'heads'"},
      {"state $s : mamba()", "wanted kv(...)"},
      {"state $s : kv(heads=1, dim=1, dtype=i32, window=0)",
       "a state of i32, wanted f32, f16, bf16, i8 or e4m3"},
      {"%y = conv %x", "line 2, column 6: unknown op 'conv'"},
      {"%y = add %x, %x : f32[T,4]", "line 2, column 10: 'x' is not defined"},
      {"input %x : f32[T,4]\n%y = add @x, %x : f32[T,4]", "'x' is written %x"},
      {"input %x : f32[T,4]\n%y = add %x : f32[T,4]", "line 3, column 6: [op.add] 1 operands"},
      {"input %x : f32[T,4]\n%y = add %x, %x : f32[T,5]",
       "line 3, column 19: 'y' is written as f32[T,5], its op makes f32[T,4]"},
      {"input %x : f32[T,4]\n%y, %z = add %x, %x : f32[T,4]", "1 results, 2 are named"},
      {"input %x : f32[T,4]\nadd %x, %x", "1 results, 0 are named"},
      {"input %x : f32[T,4]\n%x = add %x, %x : f32[T,4]", "'x' is already defined"},
      {"input %x : f32[T,4]\n%y = add %x, %x {a=1, a=2} : f32[T,4]", "'a' is given twice"},
      {"input %x : f32[T,4]\n%y = cast %x {to=} : f32[T,4]", "wanted true, false, a number"},
      {"input %x : f32[T,4]\n%y = cast %x {to=\"f32\" : f32[T,4]", "wanted '}'"},
      {"input %x : f32[T,4]\n%y = cast %x : f32[T,4]", "attribute 'to' is absent"},
      {"input %x : f32[T,4]\n%y = cast %x {to=\"f32\", b=[1,2} : f32[T,4]", "wanted ']'"},
      {"input %x : f32[T,4] output %x", "wanted the end of the line, got 'o'"},
      {"weight @w : f32[2,2]\noutput @w", "line 3, column 7: output 'w' is a weight"},
      {"state $s : kv(heads=1, dim=1, dtype=bf16, window=0)\n%y = add $s, $s : f32[T,4]",
       "op 'add' takes no state"},
      {"output", "wanted a value"},
      {"\x01", "unknown op|wanted an op, got byte 0x01"},
  };
  for (const BadText& bad : cases) {
    try {
      parse_graph(head + bad.text, all_ops());
      ADD_FAILURE() << "accepted: " << bad.text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << bad.text;
      const std::string says = bad.says;
      const std::string wanted =
          says.substr(says.find('|') == std::string::npos ? 0 : says.find('|') + 1);
      EXPECT_THAT(e.message(), HasSubstr(wanted)) << bad.text;
      EXPECT_THAT(e.message(), HasSubstr("[ir.parse] line "));
    }
  }
}

TEST(GraphText, HeaderErrors) {
  for (const char* text : {"", "grap g", "graph", "graph g", "graph g (T<=4)",
                           "graph g (T<=4, S<=1, R<=1, P<=-1)", "graph g (S<=4, T<=1, R<=1, P<=1)"})
    EXPECT_THROW(parse_graph(text, all_ops()), Error) << text;
}

// Every prefix of a good text, and the text with each byte changed, parses or is refused.
TEST(GraphText, DamagedTextsAreRefusedOrParsed) {
  const std::string text = print(sg::one_layer());
  for (std::size_t n = 0; n < text.size(); n += 3) {
    try {
      parse_graph(text.substr(0, n), all_ops());
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
    }
  }
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      const Graph g = parse_graph(damaged, all_ops());
      EXPECT_EQ(print(parse_graph(print(g), all_ops())), print(g));
      verify(g);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
    }
  }
}

TEST(GraphText, DotNamesEveryNode) {
  const std::string dot = print_dot(sg::one_layer());
  EXPECT_TRUE(dot.starts_with("digraph \"one layer\" {"));
  EXPECT_TRUE(dot.ends_with("}\n"));
  EXPECT_THAT(dot, HasSubstr("attention"));
  EXPECT_THAT(dot, HasSubstr("$kv.0"));
}

}  // namespace
}  // namespace ingot
