#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/graph_edit.h"
#include "passes/pass.h"

namespace ingot {

namespace {

// The merge of two weights whose rows are taken in turn, with the recipe that the builder follows.
ValueId interleave(Graph& graph, ValueId gate, ValueId up, std::string name) {
  ValueType type = graph.type(gate);
  type.dims[0] = type.dims[0].offset * 2;
  WeightRecipe recipe{.parts = {graph.value(gate).name, graph.value(up).name},
                      .interleave = kGateUpInterleave};
  return graph.add_weight(std::move(name), type, std::move(recipe));
}

}  // namespace

// swiglu(linear(x, g), linear(x, u)) -> linear{swiglu}(x, g and u interleaved).
bool fuse_gate_up(Graph& graph, PassContext& context) {
  bool changed = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_op(graph.nodes[n], "swiglu")) continue;
    const ValueId gate_value = graph.nodes[n].operands[0];
    const ValueId up_value = graph.nodes[n].operands[1];
    Node* gate = producer_as(graph, gate_value, "linear");
    Node* up = producer_as(graph, up_value, "linear");
    if (!gate || !up || gate == up || !used_once(graph, gate_value) || !used_once(graph, up_value))
      continue;
    const auto attrs = read_attrs<LinearAttrs>(gate->attrs);
    const bool alike = gate->attrs == up->attrs && !attrs.residual && !attrs.swiglu &&
                       gate->operands[0] == up->operands[0] &&
                       graph.type(gate->operands[1]) == graph.type(up->operands[1]);
    const std::int64_t rows = graph.type(gate->operands[1]).dims[0].offset;
    const bool plain = graph.value(gate->operands[1]).recipe.parts.empty() &&
                       graph.value(up->operands[1]).recipe.parts.empty();
    if (!alike || !plain || rows % kGateUpInterleave != 0) continue;

    LinearAttrs fused = attrs;
    fused.swiglu = true;
    std::vector<ValueType> types = operand_types(graph, gate->operands);
    for (std::size_t i = 1; i < types.size(); ++i) types[i].dims[0] = types[i].dims[0].offset * 2;
    if (!context.supports(graph, "linear", write_attrs(fused), types)) continue;

    const std::vector<ValueId> g = gate->operands;
    const std::vector<ValueId> u = up->operands;
    const std::string base = graph.value(g[1]).name + "_up";
    std::vector<ValueId> operands = {g[0], interleave(graph, g[1], u[1], base)};
    if (attrs.bias) operands.push_back(interleave(graph, g[2], u[2], base + ".bias"));
    gate->op = nullptr;
    up->op = nullptr;
    Node& node = graph.nodes[n];
    node.op = &op("linear");
    node.attrs = write_attrs(fused);
    node.operands = std::move(operands);
    changed = true;
  }
  if (changed) graph.compact();
  return changed;
}

}  // namespace ingot
