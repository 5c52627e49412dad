#pragma once

#include "ir/attrs.h"
#include "ir/op_def.h"
#include "ir/type.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr std::int32_t kNone = -1;

enum class ValueKind : std::uint8_t { kInput, kWeight, kState, kActivation };

// How a weight's rows come from the checkpoint's: the rows of `parts` one after another, or, with
// interleave g > 0, taken in turn g rows at a time (gate and up). Empty parts: the value's own
// name.
struct WeightRecipe {
  std::vector<std::string> parts;
  std::int64_t interleave = 0;
  friend bool operator==(const WeightRecipe&, const WeightRecipe&) = default;
};

struct Value {
  std::string name;  // unique in its graph, without sigil
  ValueKind kind = ValueKind::kActivation;
  ValueType type;
  WeightRecipe recipe;      // weights
  NodeId producer = kNone;  // activations; kept by Graph
};

struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
};

// A function from inputs, weights and states to outputs: flat vectors with int ids, nodes in
// program order. Copyable; prints and parses back to itself. Passes edit `nodes` and call
// `compact`.
class Graph {
 public:
  std::string name;
  DimValues max;  // upper bounds of the symbols
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<ValueId> outputs;

  ValueId add_input(std::string value_name, ValueType type);
  ValueId add_weight(std::string value_name, ValueType type, WeightRecipe recipe = {});
  ValueId add_state(std::string value_name, const StateSpec& spec);
  // Appends a node; result types come from op.infer. Names of results are made from the op's when
  // empty. Returns the results' ids. Throws what infer throws.
  std::vector<ValueId> add_node(const OpDef& op, Attrs attrs, std::vector<ValueId> operands,
                                std::vector<std::string> result_names = {});

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const ValueType& type(ValueId id) const { return value(id).type; }
  ValueId find(std::string_view value_name) const;  // kNone when absent

  // Nodes that read `id`, in order; an output counts as no node.
  std::vector<NodeId> users(ValueId id) const;
  bool is_output(ValueId id) const;
  // Every use of `from` (outputs included) becomes `to`.
  void replace_uses(ValueId from, ValueId to);
  // Drops nodes without op (passes clear `op` to delete one), dead nodes and unused values;
  // renumbers and restores producers. Nodes that write a state stay.
  void compact();

  friend bool operator==(const Graph& a, const Graph& b);  // same text
};

// Throws Error{kBug} that names the node: operands defined before use, types as inferred, names
// unique, one writer a value, states used only as state operands, outputs alive.
void verify(const Graph& graph);

// The text form: `print` then `parse` gives an equal graph.
std::string print(const Graph& graph);
// Throws Error{kBadInput} with line and column.
Graph parse_graph(std::string_view text, OpTable ops);
// Graphviz.
std::string print_dot(const Graph& graph);

}  // namespace ingot
