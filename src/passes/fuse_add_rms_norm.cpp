#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/graph_edit.h"
#include "passes/pass.h"

namespace ingot {

// h = add(x, y); n = rms_norm(h)  ->  (h, n) = add_rms_norm(x, y). h lives on as the residual.
bool fuse_add_rms_norm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_op(graph.nodes[n], "rms_norm")) continue;
    const ValueId sum = graph.nodes[n].operands[0];
    Node* add = producer_as(graph, sum, "add");
    if (!add) continue;
    const std::vector<ValueId> operands = {add->operands[0], add->operands[1],
                                           graph.nodes[n].operands[1]};
    if (graph.type(operands[0]) != graph.type(operands[1]) ||
        !context.supports(graph, "add_rms_norm", graph.nodes[n].attrs,
                          operand_types(graph, operands)))
      continue;
    Node fused{.op = &op("add_rms_norm"),
               .attrs = graph.nodes[n].attrs,
               .operands = operands,
               .results = {sum, graph.nodes[n].results[0]}};
    // In the place of the add: the sum's other readers may stand before the norm.
    *add = std::move(fused);
    graph.nodes[n].op = nullptr;
    graph.value(add->results[1]).producer = graph.value(sum).producer;
    changed = true;
  }
  if (changed) graph.compact();
  return changed;
}

}  // namespace ingot
