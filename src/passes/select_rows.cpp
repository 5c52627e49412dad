#include "ops/ops.h"
#include "passes/graph_edit.h"
#include "passes/pass.h"

namespace ingot {

// The output's rows are wanted only where Batch says: gather them before the chain of row-wise ops
// (head, final norm) instead of after. The chain's values then have R rows.
bool select_rows(Graph& graph, PassContext&) {
  if (graph.outputs.size() != 1 || graph.find("rows") != kNone) return false;
  // Walk up while the node maps rows to rows and nobody else reads its result.
  std::vector<NodeId> chain;
  ValueId at = graph.outputs[0];
  while (true) {
    const NodeId producer = graph.value(at).producer;
    if (producer == kNone) break;
    const Node& node = graph.nodes[static_cast<std::size_t>(producer)];
    const bool last = chain.empty();
    const bool only_use = last ? graph.users(at).empty() : used_once(graph, at);
    if (node.op->row_operand < 0 || node.results.size() != 1 || !only_use) break;
    // A second operand with rows of its own (a residual) would need its rows gathered too.
    int with_rows = 0;
    for (const ValueId o : node.operands)
      if (graph.value(o).kind != ValueKind::kWeight) ++with_rows;
    if (with_rows != 1) break;
    chain.push_back(producer);
    at = node.operands[static_cast<std::size_t>(node.op->row_operand)];
  }
  const ValueId rows = graph.add_input("rows", {.dtype = DType::kI32, .dims = {Symbol::kRows}});
  ValueId selected = graph.add_node(op("gather_rows"), {}, {at, rows}, {"selected"})[0];
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    const Node old = graph.nodes[static_cast<std::size_t>(*it)];
    std::vector<ValueId> operands = old.operands;
    operands[static_cast<std::size_t>(old.op->row_operand)] = selected;
    const std::string name = graph.value(old.results[0]).name;
    graph.value(old.results[0]).name += ".all";
    selected = graph.add_node(*old.op, old.attrs, operands, {name})[0];
    graph.nodes[static_cast<std::size_t>(*it)].op = nullptr;
  }
  graph.outputs[0] = selected;
  graph.compact();
  return true;
}

}  // namespace ingot
