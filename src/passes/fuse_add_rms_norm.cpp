#include "ir/pattern.h"
#include "ops/ops.h"
#include "passes/pass.h"

namespace ingot {

// h = add(x, y); n = rms_norm(h)  ->  (h, n) = add_rms_norm(x, y). h lives on as the residual.
bool fuse_add_rms_norm(Graph& graph, PassContext& context) {
  using namespace pattern;
  const Rule rule = {
      .name = "add_rms_norm",
      .roots = {node("rms_norm",
                     {node("add", {any("x"), any("y")}).as("sum").may_escape(), weight("w")})
                    .call("norm")},
      .where =
          [&context](const Match& m) {
            const std::vector<ValueType> types = {m.type("x"), m.type("y"), m.type("w")};
            return types[0] == types[1] &&
                   context.supports(*m.graph, "add_rms_norm", m.call("norm").attrs, types);
          },
      .build =
          [](Rewrite& r) {
            const auto made =
                r.emit(op("add_rms_norm"), r.call("norm").attrs, {r["x"], r["y"], r["w"]});
            r.replace("sum", made[0]);
            r.replace_root(made[1]);
          }};
  return rewrite(graph, rule) > 0;
}

}  // namespace ingot
