#include "ir/pattern.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "passes/pass.h"

namespace ingot {

namespace {

using namespace pattern;

Attrs with_residual(const Node& linear) {
  auto attrs = read_attrs<LinearAttrs>(linear.attrs);
  attrs.residual = true;
  return write_attrs(attrs);
}

Rule residual_rule(PassContext& context, bool bias) {
  std::vector<std::string_view> names = {"x", "w"};
  std::vector<Term> operands = {any("x"), weight("w")};
  if (bias) {
    names.push_back("b");
    operands.push_back(weight("b"));
  }
  names.push_back("residual");
  return {.name = "residual",
          .roots = {node("add",
                         {any("residual"), node("linear", operands).call("linear").as("product")})
                        .commutes()},
          .where =
              [&context, names](const Match& m) {
                if (read_attrs<LinearAttrs>(m.call("linear").attrs).residual) return false;
                if (m.type("product") != m.type("residual")) return false;
                std::vector<ValueType> types;
                for (const std::string_view name : names) types.push_back(m.type(name));
                return context.supports(*m.graph, "linear", with_residual(m.call("linear")), types);
              },
          .build =
              [names](Rewrite& r) {
                std::vector<ValueId> all;
                for (const std::string_view name : names) all.push_back(r[name]);
                r.replace_root(r.emit(op("linear"), with_residual(r.call("linear")), all)[0]);
              }};
}

}  // namespace

// add(x, linear(y, w)) -> linear{residual}(y, w, x), whichever side the linear stands on.
bool fuse_residual(Graph& graph, PassContext& context) {
  int changes = 0;
  for (const bool bias : {false, true}) changes += rewrite(graph, residual_rule(context, bias));
  return changes > 0;
}

}  // namespace ingot
