#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/graph_edit.h"
#include "passes/pass.h"

#include <algorithm>

namespace ingot {

namespace {

// Plain linears of the same input whose weights may be stacked: same format, same k, same result
// dtype.
bool stackable(const Graph& graph, const Node& a, const Node& b) {
  if (!is_op(b, "linear") || a.attrs != b.attrs || a.operands[0] != b.operands[0]) return false;
  const ValueType& wa = graph.type(a.operands[1]);
  const ValueType& wb = graph.type(b.operands[1]);
  return wa.format == wb.format && wa.dims[1] == wb.dims[1] &&
         graph.value(b.operands[1]).recipe.interleave == 0;
}

std::vector<NodeId> siblings(const Graph& graph, NodeId first) {
  const Node& node = graph.nodes[static_cast<std::size_t>(first)];
  std::vector<NodeId> group;
  for (const NodeId user : graph.users(node.operands[0])) {
    if (user >= first && stackable(graph, node, graph.nodes[static_cast<std::size_t>(user)]) &&
        std::find(group.begin(), group.end(), user) == group.end())
      group.push_back(user);
  }
  return group;
}

ValueId stack(Graph& graph, const std::vector<NodeId>& group, std::size_t operand,
              std::string name) {
  ValueType type = graph.type(graph.nodes[static_cast<std::size_t>(group[0])].operands[operand]);
  std::int64_t rows = 0;
  WeightRecipe recipe;
  for (const NodeId id : group) {
    const Value& weight = graph.value(graph.nodes[static_cast<std::size_t>(id)].operands[operand]);
    rows += weight.type.dims[0].offset;
    for (std::string& part : recipe_parts(weight)) recipe.parts.push_back(std::move(part));
  }
  type.dims[0] = rows;
  return graph.add_weight(std::move(name), type, std::move(recipe));
}

}  // namespace

// linear(x, q), linear(x, k), linear(x, v) -> split(linear(x, [q; k; v])). The split costs a copy
// unless a later pass takes it into the consumer, so linears merge only where their results go into
// rotation and cache.
bool merge_linears(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId n = 0; n < static_cast<NodeId>(graph.nodes.size()); ++n) {
    const Node first = graph.nodes[static_cast<std::size_t>(n)];
    if (!is_op(first, "linear")) continue;
    const auto attrs = read_attrs<LinearAttrs>(first.attrs);
    if (attrs.residual || attrs.swiglu || graph.value(first.operands[1]).recipe.interleave != 0)
      continue;
    const std::vector<NodeId> group = siblings(graph, n);
    if (group.size() < 2) continue;

    SplitAttrs split;
    std::vector<ValueId> results;
    std::string name;
    bool to_cache = false;
    for (const NodeId id : group) {
      const Node& node = graph.nodes[static_cast<std::size_t>(id)];
      const Value& weight = graph.value(node.operands[1]);
      split.sizes.push_back(weight.type.dims[0].offset);
      results.push_back(node.results[0]);
      name += (name.empty() ? "" : "+") + weight.name;
      for (const NodeId user : graph.users(node.results[0]))
        to_cache |= is_op(graph.nodes[static_cast<std::size_t>(user)], "kv_append");
    }
    if (!to_cache) continue;
    std::vector<ValueType> types = operand_types(graph, first.operands);
    std::int64_t rows = 0;
    for (const std::int64_t size : split.sizes) rows += size;
    for (std::size_t i = 1; i < types.size(); ++i) types[i].dims[0] = rows;
    if (!context.supports(graph, "linear", first.attrs, types)) continue;

    std::vector<ValueId> operands = {first.operands[0], stack(graph, group, 1, name)};
    if (attrs.bias) operands.push_back(stack(graph, group, 2, name + ".bias"));
    const ValueId merged = graph.add_node(*first.op, first.attrs, operands, {name + ".out"})[0];
    // The new node belongs where the first of the group stood: all others come later.
    Node linear = std::move(graph.nodes.back());
    graph.nodes.pop_back();
    Node split_node{
        .op = &op("split"), .attrs = write_attrs(split), .operands = {merged}, .results = results};
    for (const NodeId id : group) graph.nodes[static_cast<std::size_t>(id)].op = nullptr;
    graph.nodes[static_cast<std::size_t>(n)] = std::move(linear);
    graph.nodes.insert(graph.nodes.begin() + n + 1, std::move(split_node));
    graph.compact();
    changed = true;
  }
  return changed;
}

}  // namespace ingot
