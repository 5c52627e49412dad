#include "ir/pattern.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/pass.h"

namespace ingot {

namespace {

using namespace pattern;

Attrs fused_attrs(const Node& rope, const Node& split) {
  RopeKvAppendAttrs attrs;
  attrs.rope = read_attrs<RopeAttrs>(rope.attrs);
  const auto sizes = read_attrs<SplitAttrs>(split.attrs).sizes;
  attrs.heads = sizes[0] / attrs.rope.head_dim;
  attrs.kv_heads = sizes[1] / attrs.rope.head_dim;
  return write_attrs(attrs);
}

constexpr std::string_view kOperands[] = {"qkv",      "positions", "inv_freq",
                                          "rope_row", "slots",     "state"};

}  // namespace

// q, k, v = split(qkv); rope(q); rope(k); kv_append(k, v)  ->  rope_kv_append(qkv), which gives q.
bool fuse_rope_append(Graph& graph, PassContext& context) {
  const Term split = node("split", {any("qkv")}).call("split");
  const auto rope = [&](int part, std::string_view call) {
    return node("rope", {split.result(part), any("positions"), weight("inv_freq"), any("rope_row")})
        .call(call);
  };
  const Rule rule = {
      .name = "rope_append",
      .roots = {rope(0, "rope_q"), node("kv_append", {rope(1, "rope_k"), split.result(2),
                                                      any("slots"), any("state")})},
      .where =
          [&context](const Match& m) {
            if (m.call("split").results.size() != 3 ||
                m.call("rope_q").attrs != m.call("rope_k").attrs)
              return false;
            std::vector<ValueType> types;
            for (const std::string_view name : kOperands) types.push_back(m.type(name));
            return context.supports(*m.graph, "rope_kv_append",
                                    fused_attrs(m.call("rope_q"), m.call("split")), types);
          },
      .build =
          [](Rewrite& r) {
            std::vector<ValueId> operands;
            for (const std::string_view name : kOperands) operands.push_back(r[name]);
            r.replace_root(r.emit(op("rope_kv_append"),
                                  fused_attrs(r.call("rope_q"), r.call("split")), operands)[0]);
          }};
  return rewrite(graph, rule) > 0;
}

}  // namespace ingot
