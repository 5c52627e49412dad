#include "ir/graph.h"

#include "base/check.h"

#include <algorithm>
#include <span>
#include <utility>

namespace ingot {

namespace {

ValueId append(Graph& graph, Value value) {
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

std::string free_name(const Graph& graph, std::string_view stem) {
  for (std::size_t n = graph.values.size();; ++n) {
    std::string name = std::string(stem) + "." + std::to_string(n);
    if (graph.find(name) == kNone) return name;
  }
}

// Marks the values that outputs and state writes need, walking backwards.
std::vector<bool> live_nodes(const Graph& graph, std::vector<bool>& live_values) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (const ValueId id : graph.outputs) live_values[static_cast<std::size_t>(id)] = true;
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (!node.op) continue;
    live[n] = node.op->writes_state ||
              std::any_of(node.results.begin(), node.results.end(),
                          [&](ValueId r) { return live_values[static_cast<std::size_t>(r)]; });
    if (!live[n]) continue;
    for (const ValueId r : node.results) live_values[static_cast<std::size_t>(r)] = true;
    for (const ValueId o : node.operands) live_values[static_cast<std::size_t>(o)] = true;
  }
  return live;
}

}  // namespace

ValueId Graph::add_input(std::string value_name, ValueType type) {
  return append(*this, {.name = std::move(value_name), .kind = ValueKind::kInput, .type = type});
}

ValueId Graph::add_weight(std::string value_name, ValueType type, WeightRecipe recipe) {
  // A weight always says how it is stored; a plain dtype names its format.
  if (!type.format) {
    type.format = &weight_format(dtype_name(type.dtype));
    type.dtype = DType::kF32;
  }
  return append(*this, {.name = std::move(value_name),
                        .kind = ValueKind::kWeight,
                        .type = std::move(type),
                        .recipe = std::move(recipe)});
}

ValueId Graph::add_state(std::string value_name, const StateSpec& spec) {
  ValueType type;
  type.dtype = spec.dtype;
  type.state = spec;
  return append(
      *this, {.name = std::move(value_name), .kind = ValueKind::kState, .type = std::move(type)});
}

std::vector<ValueId> Graph::add_node(const OpDef& op, Attrs attrs, std::vector<ValueId> operands,
                                     std::vector<std::string> result_names) {
  std::vector<ValueType> types;
  types.reserve(operands.size());
  for (const ValueId id : operands) {
    check(id >= 0 && static_cast<std::size_t>(id) < values.size(), "operand of another graph");
    types.push_back(type(id));
  }
  std::vector<ValueType> result_types = op.infer(attrs, types);
  check(result_names.empty() || result_names.size() == result_types.size(),
        "one name a result, or none");
  Node node{.op = &op, .attrs = std::move(attrs), .operands = std::move(operands), .results = {}};
  for (std::size_t i = 0; i < result_types.size(); ++i) {
    std::string result_name = i < result_names.size() ? std::move(result_names[i]) : std::string();
    if (result_name.empty()) result_name = free_name(*this, op.name);
    node.results.push_back(append(*this, {.name = std::move(result_name),
                                          .kind = ValueKind::kActivation,
                                          .type = std::move(result_types[i]),
                                          .recipe = {},
                                          .producer = static_cast<NodeId>(nodes.size())}));
  }
  nodes.push_back(std::move(node));
  return nodes.back().results;
}

ValueId Graph::find(std::string_view value_name) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].name == value_name) return static_cast<ValueId>(i);
  return kNone;
}

std::vector<NodeId> Graph::users(ValueId id) const {
  std::vector<NodeId> result;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    if (node.op && std::find(node.operands.begin(), node.operands.end(), id) != node.operands.end())
      result.push_back(static_cast<NodeId>(n));
  }
  return result;
}

bool Graph::is_output(ValueId id) const {
  return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes) std::replace(node.operands.begin(), node.operands.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

void Graph::compact() {
  std::vector<bool> used(values.size(), false);
  const std::vector<bool> live = live_nodes(*this, used);

  std::vector<ValueId> renumbered(values.size(), kNone);
  std::vector<Value> kept_values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!used[i]) continue;
    renumbered[i] = static_cast<ValueId>(kept_values.size());
    kept_values.push_back(std::move(values[i]));
    kept_values.back().producer = kNone;
  }
  values = std::move(kept_values);

  std::vector<Node> kept_nodes;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!live[n]) continue;
    Node& node = nodes[n];
    for (ValueId& id : node.operands) id = renumbered[static_cast<std::size_t>(id)];
    for (ValueId& id : node.results) {
      id = renumbered[static_cast<std::size_t>(id)];
      value(id).producer = static_cast<NodeId>(kept_nodes.size());
    }
    kept_nodes.push_back(std::move(node));
  }
  nodes = std::move(kept_nodes);
  for (ValueId& id : outputs) id = renumbered[static_cast<std::size_t>(id)];
  for (const Value& v : values)
    check(v.kind != ValueKind::kActivation || v.producer != kNone,
          "a value is used whose node was deleted");
}

bool operator==(const Graph& a, const Graph& b) {
  return print(a) == print(b);
}

}  // namespace ingot
