#pragma once

#include "ir/graph.h"

#include <string_view>
#include <vector>

// Small questions and edits that the rewrites share.
namespace ingot {

inline bool is_op(const Node& node, std::string_view name) {
  return node.op && node.op->name == name;
}

// The node that makes `id` when it is an `op`, otherwise null.
inline Node* producer_as(Graph& graph, ValueId id, std::string_view op) {
  const NodeId at = graph.value(id).producer;
  if (at == kNone) return nullptr;
  Node& node = graph.nodes[static_cast<std::size_t>(at)];
  return is_op(node, op) ? &node : nullptr;
}

// `id` is read once and is no output.
inline bool used_once(const Graph& graph, ValueId id) {
  return graph.users(id).size() == 1 && !graph.is_output(id);
}

inline std::vector<ValueType> operand_types(const Graph& graph,
                                            const std::vector<ValueId>& operands) {
  std::vector<ValueType> types;
  types.reserve(operands.size());
  for (const ValueId id : operands) types.push_back(graph.type(id));
  return types;
}

// The names that a weight is made of, itself where it is not merged yet.
inline std::vector<std::string> recipe_parts(const Value& weight) {
  return weight.recipe.parts.empty() ? std::vector<std::string>{weight.name} : weight.recipe.parts;
}

}  // namespace ingot
