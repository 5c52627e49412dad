#pragma once

#include "ir/graph.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Declarative rewrites of small DAGs:
//
//   using namespace pattern;
//   const Rule rule = {
//       .name = "add_rms_norm",
//       .roots = {node("rms_norm", {node("add", {any("x"), any("y")}).as("sum").may_escape(),
//                                   weight("w")}).call("norm")},
//       .build = [](Rewrite& r) {
//         const auto made = r.emit(op("add_rms_norm"), r.call("norm").attrs,
//                                  {r["x"], r["y"], r["w"]});
//         r.replace("sum", made[0]);
//         r.replace_root(made[1]);
//       }};
//   rewrite(graph, rule);
namespace ingot::pattern {

// What a value must be. Terms are trees; a value that is captured under one name in two places must
// be the same value, and nodes likewise, so they describe DAGs.
class Term {
 public:
  // Captures the value (of a node: its result) or the node.
  Term as(std::string_view value_name) const;
  Term call(std::string_view node_name) const;
  // Which result of the node the value is; 0 unless given. For roots without meaning.
  Term result(int index) const;
  // The value may have uses outside the match or be an output. Without this an inner value may not:
  // the rewrite would compute it twice.
  Term may_escape() const;
  // Operands 0 and 1 also match the other way round.
  Term commutes() const;
  Term where(std::function<bool(const Graph&, const Node&)> predicate) const;

 private:
  friend Term any(std::string_view);
  friend Term weight(std::string_view);
  friend Term node(std::string_view, std::vector<Term>);
  friend class Matcher;
  enum class Kind : std::uint8_t { kAny, kWeight, kNode };
  Kind kind_ = Kind::kAny;
  std::string op_;
  std::vector<Term> operands_;
  std::string value_name_;
  std::string node_name_;
  int result_ = 0;
  bool may_escape_ = false;
  bool commutes_ = false;
  std::function<bool(const Graph&, const Node&)> where_;
};

Term any(std::string_view value_name);     // any value, states and weights included
Term weight(std::string_view value_name);  // a weight
// A call of `op` with exactly these operands.
Term node(std::string_view op, std::vector<Term> operands);

// What matched, by the names of the terms.
struct Match {
  const Graph* graph = nullptr;
  std::vector<NodeId> roots;
  std::vector<NodeId> nodes;  // all that terms named, roots included
  std::map<std::string, ValueId, std::less<>> values;
  std::map<std::string, NodeId, std::less<>> calls;

  ValueId operator[](std::string_view value_name) const;
  const Node& call(std::string_view node_name) const;
  const ValueType& type(std::string_view value_name) const;
};

// What a rule's build function works with: the match, and the replacement that it makes.
class Rewrite {
 public:
  ValueId operator[](std::string_view value_name) const { return match_[value_name]; }
  const Node& call(std::string_view node_name) const { return match_.call(node_name); }
  const ValueType& type(std::string_view value_name) const { return match_.type(value_name); }
  const Match& match() const { return match_; }
  const Value& value(std::string_view value_name) const;

  // A new node; returns its results.
  std::vector<ValueId> emit(const OpDef& op, Attrs attrs, std::vector<ValueId> operands);
  // A new weight, or the one of this name, which must then be the same.
  ValueId add_weight(std::string name, ValueType type, WeightRecipe recipe);
  // Every use of the captured value becomes `replacement`.
  void replace(std::string_view value_name, ValueId replacement);
  // The same for result `index` of a root.
  void replace_root(ValueId replacement, int root = 0, int index = 0);

 private:
  friend class Applier;
  Rewrite(Graph& graph, const Match& match) : graph_(graph), match_(match) {}
  Graph& graph_;  // new nodes gather at its end
  const Match& match_;
  std::vector<std::pair<ValueId, ValueId>> replacements_;
};

struct Rule {
  std::string_view name;
  // Several roots (siblings) are found in the order given; nodes of a match are all different.
  // Roots disappear: all their results must be replaced or unused.
  std::vector<Term> roots;
  std::function<bool(const Match&)> where = {};  // on the whole match; absent: always
  std::function<void(Rewrite&)> build;
};

}  // namespace ingot::pattern

namespace ingot {

// Applies the rule until it matches nowhere; returns how often it did. New nodes come to stand
// where their operands exist, before the first use of what they replace, and on the same side of
// every other access to the states they touch as the nodes they replace; a match with no such place
// is left alone. The graph is compact afterwards, and verified.
int rewrite(Graph& graph, const pattern::Rule& rule);

}  // namespace ingot
