#include "base/error.h"
#include "ir/graph.h"

#include <unordered_set>

namespace ingot {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  void run() {
    check_values();
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) check_node(static_cast<NodeId>(n));
    for (const Value& v : graph_.values)
      if (!defined_[index(v)]) bad("value '{}' has no node that makes it", v.name);
    check_outputs();
  }

 private:
  template <typename... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kBug, fmt::format("[ir.verify] graph '{}': {}", graph_.name,
                                             fmt::format(format, std::forward<Args>(args)...)));
  }

  std::size_t index(const Value& v) const {
    return static_cast<std::size_t>(&v - graph_.values.data());
  }
  bool known(ValueId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < graph_.values.size();
  }
  std::string describe(NodeId n) const {
    const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
    std::string text = fmt::format("node {} ({}", n, node.op ? node.op->name : "no op");
    if (!node.results.empty() && known(node.results[0]))
      text += " -> " + graph_.value(node.results[0]).name;
    return text + ")";
  }

  void check_values() {
    std::unordered_set<std::string_view> names;
    for (const Value& v : graph_.values) {
      if (v.name.empty()) bad("value {} has no name", index(v));
      if (!names.insert(v.name).second) bad("two values are named '{}'", v.name);
      if (v.type.dims.size() > Shape::kMaxRank) bad("'{}' has more than four dimensions", v.name);
      for (const Dim& d : v.type.dims)
        if ((d.is_number() && (d.scale != 0 || d.offset < 0)) || d.scale < 0)
          bad("'{}' has the dimension {} (scale {})", v.name, to_string(d), d.scale);
      if ((v.kind == ValueKind::kWeight) != (v.type.format != nullptr))
        bad("'{}': weights and only they have a weight format", v.name);
      if ((v.kind == ValueKind::kState) != (v.type.state != StateSpec{}))
        bad("'{}': states and only they have a state's spec", v.name);
      if (v.kind == ValueKind::kState && (v.type.state.kv_heads < 1 || v.type.state.head_dim < 1))
        bad("state '{}' keeps {} heads of {}", v.name, v.type.state.kv_heads,
            v.type.state.head_dim);
      if (v.kind == ValueKind::kState && !is_state_dtype(v.type.state.dtype))
        bad("state '{}' keeps {}", v.name, dtype_name(v.type.state.dtype));
      if (v.kind != ValueKind::kActivation) {
        defined_[index(v)] = true;
        if (v.producer != kNone) bad("'{}' is made by a node but is no activation", v.name);
      }
    }
  }

  void check_node(NodeId n) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
    if (!node.op) bad("{} is deleted: compact() is missing", describe(n));
    std::vector<ValueType> types;
    bool has_state = false;
    for (const ValueId id : node.operands) {
      if (!known(id)) bad("{} reads value {}, which does not exist", describe(n), id);
      if (!defined_[static_cast<std::size_t>(id)])
        bad("{} reads '{}' before it is made", describe(n), graph_.value(id).name);
      has_state |= graph_.value(id).kind == ValueKind::kState;
      types.push_back(graph_.type(id));
    }
    const bool wants_state = node.op->reads_state || node.op->writes_state;
    if (has_state != wants_state)
      bad("{} {}", describe(n), has_state ? "takes a state as a tensor" : "has no state operand");
    check_results(n, types);
  }

  void check_results(NodeId n, const std::vector<ValueType>& operand_types) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
    std::vector<ValueType> inferred;
    try {
      inferred = node.op->infer(node.attrs, operand_types);
    } catch (const Error& e) {
      bad("{}: {}", describe(n), e.message());
    }
    if (inferred.size() != node.results.size())
      bad("{} has {} results, its op makes {}", describe(n), node.results.size(), inferred.size());
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const ValueId id = node.results[i];
      if (!known(id)) bad("{} makes value {}, which does not exist", describe(n), id);
      const Value& v = graph_.value(id);
      if (v.kind != ValueKind::kActivation) bad("{} writes '{}'", describe(n), v.name);
      if (defined_[static_cast<std::size_t>(id)])
        bad("{} is the second writer of '{}'", describe(n), v.name);
      if (v.producer != n)
        bad("{} makes '{}', whose producer says {}", describe(n), v.name, v.producer);
      if (v.type != inferred[i])
        bad("{}: '{}' is {}, inferred {}", describe(n), v.name, to_string(v.type),
            to_string(inferred[i]));
      defined_[static_cast<std::size_t>(id)] = true;
    }
  }

  void check_outputs() const {
    for (const ValueId id : graph_.outputs) {
      if (!known(id)) bad("output {} does not exist", id);
      const Value& v = graph_.value(id);
      if (v.kind != ValueKind::kActivation && v.kind != ValueKind::kInput)
        bad("output '{}' is a weight or state", v.name);
    }
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace ingot
