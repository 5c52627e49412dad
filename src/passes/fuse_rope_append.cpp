#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/graph_edit.h"
#include "passes/pass.h"

namespace ingot {

// split(qkv) -> q, k, v; rope(q), rope(k); kv_append(k, v)  becomes  rope_kv_append(qkv) -> q.
bool fuse_rope_append(Graph& graph, PassContext& context) {
  bool changed = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_op(graph.nodes[n], "kv_append")) continue;
    const std::vector<ValueId> append = graph.nodes[n].operands;  // k, v, slots, state
    Node* rope_k = producer_as(graph, append[0], "rope");
    if (!rope_k || !used_once(graph, append[0]) || !used_once(graph, append[1])) continue;
    Node* split = producer_as(graph, rope_k->operands[0], "split");
    if (!split || split->results.size() != 3 || split->results[1] != rope_k->operands[0] ||
        split->results[2] != append[1] || !used_once(graph, split->results[0]) ||
        !used_once(graph, split->results[1]))
      continue;
    const NodeId rope_q_at = graph.users(split->results[0])[0];
    Node& rope_q = graph.nodes[static_cast<std::size_t>(rope_q_at)];
    const bool same_rotation = is_op(rope_q, "rope") && rope_q.attrs == rope_k->attrs &&
                               std::equal(rope_q.operands.begin() + 1, rope_q.operands.end(),
                                          rope_k->operands.begin() + 1, rope_k->operands.end());
    if (!same_rotation) continue;

    RopeKvAppendAttrs attrs;
    attrs.rope = read_attrs<RopeAttrs>(rope_q.attrs);
    const auto sizes = read_attrs<SplitAttrs>(split->attrs).sizes;
    attrs.heads = sizes[0] / attrs.rope.head_dim;
    attrs.kv_heads = sizes[1] / attrs.rope.head_dim;
    const std::vector<ValueId> operands = {split->operands[0], rope_q.operands[1],
                                           rope_q.operands[2], rope_q.operands[3],
                                           append[2],          append[3]};
    const auto types = operand_types(graph, operands);
    if (!context.supports(graph, "rope_kv_append", write_attrs(attrs), types)) continue;

    // In the place of kv_append: everything it reads stands before, and q's readers (attention)
    // behind.
    const bool q_read_later =
        std::all_of(graph.users(rope_q.results[0]).begin(), graph.users(rope_q.results[0]).end(),
                    [&](NodeId user) { return user > static_cast<NodeId>(n); });
    if (!q_read_later) continue;
    Node fused{.op = &op("rope_kv_append"),
               .attrs = write_attrs(attrs),
               .operands = operands,
               .results = {rope_q.results[0]}};
    rope_q.op = nullptr;
    rope_k->op = nullptr;
    split->op = nullptr;
    graph.nodes[n] = std::move(fused);
    graph.compact();
    n = 0;  // indices moved; graphs are small
    changed = true;
  }
  return changed;
}

}  // namespace ingot
