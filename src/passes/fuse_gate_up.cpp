#include "ir/pattern.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/pass.h"

namespace ingot {

namespace {

using namespace pattern;

ValueType twice_the_rows(ValueType type) {
  type.dims[0] = type.dims[0].offset * 2;
  return type;
}

Attrs with_swiglu(const Node& linear) {
  auto attrs = read_attrs<LinearAttrs>(linear.attrs);
  attrs.swiglu = true;
  return write_attrs(attrs);
}

// Rows of gate and up in turn, as WeightRecipe says and builders follow.
ValueId interleave(Rewrite& r, std::string_view gate, std::string_view up) {
  const Value& g = r.value(gate);
  return r.add_weight(g.name + "+" + r.value(up).name, twice_the_rows(g.type),
                      {.parts = {g.name, r.value(up).name}, .interleave = kGateUpInterleave});
}

bool can_interleave(const Match& m, const std::vector<std::string_view>& gates,
                    const std::vector<std::string_view>& ups) {
  const auto attrs = read_attrs<LinearAttrs>(m.call("gate").attrs);
  if (m.call("gate").attrs != m.call("up").attrs || attrs.residual || attrs.swiglu) return false;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const Value& g = m.graph->value(m[gates[i]]);
    const Value& u = m.graph->value(m[ups[i]]);
    if (g.type != u.type || !g.recipe.parts.empty() || !u.recipe.parts.empty()) return false;
  }
  return m.type(gates[0]).dims[0].offset % kGateUpInterleave == 0;
}

Rule gate_up_rule(PassContext& context, bool bias) {
  const auto linear = [&](std::string_view weight_name, std::string_view bias_name,
                          std::string_view call) {
    std::vector<Term> operands = {any("x"), weight(weight_name)};
    if (bias) operands.push_back(weight(bias_name));
    return node("linear", operands).call(call);
  };
  std::vector<std::string_view> gates = {"g"};
  std::vector<std::string_view> ups = {"u"};
  if (bias) {
    gates.push_back("gb");
    ups.push_back("ub");
  }
  return {.name = "gate_up",
          .roots = {node("swiglu", {linear("g", "gb", "gate"), linear("u", "ub", "up")})},
          .where =
              [&context, gates, ups](const Match& m) {
                if (!can_interleave(m, gates, ups)) return false;
                std::vector<ValueType> types = {m.type("x")};
                for (const std::string_view g : gates) types.push_back(twice_the_rows(m.type(g)));
                return context.supports(*m.graph, "linear", with_swiglu(m.call("gate")), types);
              },
          .build =
              [gates, ups](Rewrite& r) {
                std::vector<ValueId> operands = {r["x"]};
                for (std::size_t i = 0; i < gates.size(); ++i)
                  operands.push_back(interleave(r, gates[i], ups[i]));
                r.replace_root(r.emit(op("linear"), with_swiglu(r.call("gate")), operands)[0]);
              }};
}

}  // namespace

// swiglu(linear(x, g), linear(x, u)) -> linear{swiglu}(x, g and u interleaved), with biases or
// without.
bool fuse_gate_up(Graph& graph, PassContext& context) {
  int changes = 0;
  for (const bool bias : {false, true}) changes += rewrite(graph, gate_up_rule(context, bias));
  return changes > 0;
}

}  // namespace ingot
