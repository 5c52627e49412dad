#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/graph_edit.h"
#include "passes/pass.h"

namespace ingot {

// add(x, linear(y, w)) -> linear{residual}(y, w, x), whichever side the linear stands on.
bool fuse_residual(Graph& graph, PassContext& context) {
  bool changed = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_op(graph.nodes[n], "add")) continue;
    for (const int side : {1, 0}) {
      const ValueId product = graph.nodes[n].operands[static_cast<std::size_t>(side)];
      const ValueId other = graph.nodes[n].operands[static_cast<std::size_t>(1 - side)];
      Node* linear = producer_as(graph, product, "linear");
      if (!linear || !used_once(graph, product) || product == other) continue;
      auto attrs = read_attrs<LinearAttrs>(linear->attrs);
      if (attrs.residual || graph.type(product) != graph.type(other)) continue;
      attrs.residual = true;
      std::vector<ValueId> operands = linear->operands;
      operands.push_back(other);
      if (!context.supports(graph, "linear", write_attrs(attrs), operand_types(graph, operands)))
        continue;
      // Stands where the add stood: the residual is defined there.
      linear->op = nullptr;
      Node& node = graph.nodes[n];
      node.op = &op("linear");
      node.attrs = write_attrs(attrs);
      node.operands = std::move(operands);
      changed = true;
      break;
    }
  }
  if (changed) graph.compact();
  return changed;
}

}  // namespace ingot
