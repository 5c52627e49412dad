#include "ir/pattern.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace ingot::pattern {

Term Term::as(std::string_view value_name) const {
  Term t = *this;
  t.value_name_ = value_name;
  return t;
}
Term Term::call(std::string_view node_name) const {
  Term t = *this;
  t.node_name_ = node_name;
  return t;
}
Term Term::result(int index) const {
  Term t = *this;
  t.result_ = index;
  return t;
}
Term Term::may_escape() const {
  Term t = *this;
  t.may_escape_ = true;
  return t;
}
Term Term::commutes() const {
  check(kind_ == Kind::kNode && operands_.size() >= 2, "only calls with two operands commute");
  Term t = *this;
  t.commutes_ = true;
  return t;
}
Term Term::where(std::function<bool(const Graph&, const Node&)> predicate) const {
  Term t = *this;
  t.where_ = std::move(predicate);
  return t;
}

Term any(std::string_view value_name) {
  return Term().as(value_name);
}

Term weight(std::string_view value_name) {
  Term t = Term().as(value_name);
  t.kind_ = Term::Kind::kWeight;
  return t;
}

Term node(std::string_view op, std::vector<Term> operands) {
  Term t;
  t.kind_ = Term::Kind::kNode;
  t.op_ = op;
  t.operands_ = std::move(operands);
  return t;
}

ValueId Match::operator[](std::string_view value_name) const {
  const auto it = values.find(value_name);
  check(it != values.end(), "the pattern captures no value of this name");
  return it->second;
}

const Node& Match::call(std::string_view node_name) const {
  const auto it = calls.find(node_name);
  check(it != calls.end(), "the pattern captures no call of this name");
  return graph->nodes[static_cast<std::size_t>(it->second)];
}

const ValueType& Match::type(std::string_view value_name) const {
  return graph->type((*this)[value_name]);
}

const Value& Rewrite::value(std::string_view value_name) const {
  return graph_.value(match_[value_name]);
}

std::vector<ValueId> Rewrite::emit(const OpDef& op, Attrs attrs, std::vector<ValueId> operands) {
  return graph_.add_node(op, std::move(attrs), std::move(operands));
}

ValueId Rewrite::add_weight(std::string name, ValueType type, WeightRecipe recipe) {
  const ValueId known = graph_.find(name);
  if (known == kNone) return graph_.add_weight(std::move(name), std::move(type), std::move(recipe));
  const Value& v = graph_.value(known);
  check(v.kind == ValueKind::kWeight && v.type == type && v.recipe == recipe,
        "a weight of this name exists and is another");
  return known;
}

void Rewrite::replace(std::string_view value_name, ValueId replacement) {
  replacements_.emplace_back(match_[value_name], replacement);
}

void Rewrite::replace_root(ValueId replacement, int root, int index) {
  const NodeId id = match_.roots.at(static_cast<std::size_t>(root));
  const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
  replacements_.emplace_back(node.results.at(static_cast<std::size_t>(index)), replacement);
}

// Readers of every value, for one state of a graph.
class Uses {
 public:
  explicit Uses(const Graph& graph) : readers_(graph.values.size()), output_(graph.values.size()) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const ValueId id : graph.nodes[n].operands)
        readers_[static_cast<std::size_t>(id)].push_back(static_cast<NodeId>(n));
    for (const ValueId id : graph.outputs) output_[static_cast<std::size_t>(id)] = true;
  }
  const std::vector<NodeId>& readers(ValueId id) const {
    return readers_[static_cast<std::size_t>(id)];
  }
  bool is_output(ValueId id) const { return output_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> output_;
};

// Finds one match by backtracking over commuting operands and candidates for later roots.
class Matcher {
 public:
  Matcher(const Graph& graph, const Uses& uses, const Rule& rule)
      : graph_(graph), uses_(uses), rule_(rule) {}

  std::optional<Match> at(NodeId first_root) {
    found_.reset();
    Match start;
    start.graph = &graph_;
    match_root(0, first_root, start, {});
    return found_;
  }

 private:
  using Inner = std::vector<ValueId>;  // values that may have no use outside the match
  struct State {
    Match match;
    Inner inner;
  };
  using Next = std::function<bool(const State&)>;  // true: a match is found, stop

  bool match_root(std::size_t root, NodeId n, const Match& match, const Inner& inner) {
    const State state{match, inner};
    return match_node(rule_.roots[root], n, state, [&](const State& matched) {
      State next = matched;
      next.match.roots.push_back(n);
      return finish_root(root + 1, next);
    });
  }

  bool finish_root(std::size_t next_root, const State& state) {
    if (next_root == rule_.roots.size()) return accept(state);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      const auto& taken = state.match.nodes;
      if (std::find(taken.begin(), taken.end(), id) != taken.end()) continue;
      if (match_root(next_root, id, state.match, state.inner)) return true;
    }
    return false;
  }

  bool accept(const State& state) {
    const auto inside = [&](NodeId n) {
      const auto& nodes = state.match.nodes;
      return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
    };
    for (const ValueId id : state.inner) {
      const auto& readers = uses_.readers(id);
      if (uses_.is_output(id) || !std::all_of(readers.begin(), readers.end(), inside)) return false;
    }
    if (rule_.where && !rule_.where(state.match)) return false;
    found_ = state.match;
    return true;
  }

  bool match_node(const Term& term, NodeId n, const State& state, const Next& next) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
    if (!node.op || node.op->name != term.op_ || node.operands.size() != term.operands_.size())
      return false;
    if (term.where_ && !term.where_(graph_, node)) return false;
    State here = state;
    if (!term.node_name_.empty()) {
      const auto [it, is_new] = here.match.calls.emplace(term.node_name_, n);
      if (!is_new && it->second != n) return false;
    }
    auto& nodes = here.match.nodes;
    if (std::find(nodes.begin(), nodes.end(), n) == nodes.end()) nodes.push_back(n);
    if (match_operands(term, node, {false, 0}, here, next)) return true;
    return term.commutes_ && match_operands(term, node, {true, 0}, here, next);
  }

  struct Place {
    bool swapped;
    std::size_t index;
  };
  bool match_operands(const Term& term, const Node& node, Place place, const State& state,
                      const Next& next) {
    if (place.index == term.operands_.size()) return next(state);
    const std::size_t actual = place.swapped && place.index < 2 ? 1 - place.index : place.index;
    return match_value(
        term.operands_[place.index], node.operands[actual], state, [&](const State& matched) {
          return match_operands(term, node, {place.swapped, place.index + 1}, matched, next);
        });
  }

  bool match_value(const Term& term, ValueId id, const State& state, const Next& next) {
    const Value& value = graph_.value(id);
    State here = state;
    if (!term.value_name_.empty()) {
      const auto [it, is_new] = here.match.values.emplace(term.value_name_, id);
      if (!is_new && it->second != id) return false;
    }
    if (term.kind_ == Term::Kind::kAny) return next(here);
    if (term.kind_ == Term::Kind::kWeight) return value.kind == ValueKind::kWeight && next(here);
    if (value.producer == kNone) return false;
    const Node& producer = graph_.nodes[static_cast<std::size_t>(value.producer)];
    const auto result = static_cast<std::size_t>(term.result_);
    if (result >= producer.results.size() || producer.results[result] != id) return false;
    if (!term.may_escape_) here.inner.push_back(id);
    return match_node(term, value.producer, here, next);
  }

  const Graph& graph_;
  const Uses& uses_;
  const Rule& rule_;
  std::optional<Match> found_;
};

// Carries out one match on a copy and puts the new nodes where they may stand.
class Applier {
 public:
  Applier(const Graph& graph, const Rule& rule, const Match& match)
      : before_(graph), after_(graph), rule_(rule), match_(match) {
    match_.graph = &before_;
  }

  // Nothing when the new nodes have no place.
  std::optional<Graph> run() {
    const auto old_nodes = before_.nodes.size();
    Rewrite work(after_, match_);
    rule_.build(work);
    for (const auto& [from, to] : work.replacements_) replace(from, to, old_nodes);
    delete_matched();
    const auto place = find_place(old_nodes);
    if (!place) return std::nullopt;
    std::rotate(after_.nodes.begin() + static_cast<std::ptrdiff_t>(*place),
                after_.nodes.begin() + static_cast<std::ptrdiff_t>(old_nodes), after_.nodes.end());
    after_.compact();
    verify(after_);
    return std::move(after_);
  }

 private:
  // The new nodes may read what they replace.
  void replace(ValueId from, ValueId to, std::size_t old_nodes) {
    for (std::size_t n = 0; n < old_nodes; ++n)
      std::replace(after_.nodes[n].operands.begin(), after_.nodes[n].operands.end(), from, to);
    std::replace(after_.outputs.begin(), after_.outputs.end(), from, to);
  }

  bool is_matched(std::size_t n) const {
    return std::find(match_.nodes.begin(), match_.nodes.end(), static_cast<NodeId>(n)) !=
           match_.nodes.end();
  }

  // Roots go; inner nodes go when nothing needs them any more.
  void delete_matched() {
    for (const NodeId root : match_.roots) {
      Node& node = after_.nodes[static_cast<std::size_t>(root)];
      node.op = nullptr;
      node.operands.clear();
      for (const ValueId id : node.results)
        check(after_.users(id).empty() && !after_.is_output(id),
              "a rule left a root's result without replacement");
    }
    for (bool again = true; again;) {
      again = false;
      for (const NodeId n : match_.nodes) {
        Node& node = after_.nodes[static_cast<std::size_t>(n)];
        if (!node.op) continue;
        check(!node.op->writes_state, "a node that writes a state can be matched as root only");
        const bool used = std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) {
          return after_.is_output(id) || !after_.users(id).empty();
        });
        if (used) continue;
        node.op = nullptr;
        node.operands.clear();
        again = true;
      }
    }
  }

  std::optional<std::size_t> find_place(std::size_t old_nodes) const {
    std::size_t low = 0, high = old_nodes;
    for (std::size_t n = old_nodes; n < after_.nodes.size(); ++n)
      for (const ValueId id : after_.nodes[n].operands) {
        const NodeId producer = after_.value(id).producer;
        if (producer != kNone && static_cast<std::size_t>(producer) < old_nodes)
          low = std::max(low, static_cast<std::size_t>(producer) + 1);
      }
    for (std::size_t n = 0; n < old_nodes; ++n)
      for (const ValueId id : after_.nodes[n].operands) {
        const NodeId producer = after_.value(id).producer;
        if (producer != kNone && static_cast<std::size_t>(producer) >= old_nodes)
          high = std::min(high, n);
      }
    if (low > high) return std::nullopt;
    // At the root if that keeps the order of state accesses, else at another node of the match.
    std::vector<NodeId> anchors = {match_.roots[0]};
    anchors.insert(anchors.end(), match_.nodes.begin(), match_.nodes.end());
    for (const NodeId anchor : anchors) {
      const std::size_t place = std::clamp(static_cast<std::size_t>(anchor), low, high);
      if (keeps_state_order(place, old_nodes)) return place;
    }
    return std::nullopt;
  }

  // No foreign access to a state that the match touches lies between the match's own and the place.
  bool keeps_state_order(std::size_t place, std::size_t old_nodes) const {
    std::set<ValueId> replaced;
    for (std::size_t n = 0; n < old_nodes; ++n) {
      if (!is_matched(n) || after_.nodes[n].op) continue;
      for (const ValueId state : states_of(before_.nodes[n])) {
        replaced.insert(state);
        for (std::size_t other = std::min(n, place); other < std::max(n, place); ++other) {
          const std::vector<ValueId> touched = states_of(after_.nodes[other]);
          if (std::find(touched.begin(), touched.end(), state) != touched.end()) return false;
        }
      }
    }
    for (std::size_t n = old_nodes; n < after_.nodes.size(); ++n)
      for (const ValueId state : states_of(after_.nodes[n]))
        check(replaced.contains(state), "a rule makes a node touch a state that its match did not");
    return true;
  }

  std::vector<ValueId> states_of(const Node& node) const {
    std::vector<ValueId> states;
    if (node.op)
      for (const ValueId id : node.operands)
        if (after_.value(id).kind == ValueKind::kState) states.push_back(id);
    return states;
  }

  const Graph& before_;
  Graph after_;
  const Rule& rule_;
  Match match_;
};

// One application anywhere, from `first` on in program order; returns whether there was one.
bool apply_once(Graph& graph, const Rule& rule) {
  const Uses uses(graph);
  Matcher matcher(graph, uses, rule);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto match = matcher.at(static_cast<NodeId>(n));
    if (!match) continue;
    if (auto rewritten = Applier(graph, rule, *match).run()) {
      graph = std::move(*rewritten);
      return true;
    }
  }
  return false;
}

}  // namespace ingot::pattern

namespace ingot {

int rewrite(Graph& graph, const pattern::Rule& rule) {
  check(!rule.roots.empty(), "a rule without roots");
  graph.compact();
  const std::size_t limit = 4 * graph.nodes.size() + 16;
  int count = 0;
  while (pattern::apply_once(graph, rule)) {
    ++count;
    check(static_cast<std::size_t>(count) <= limit, "a rule matches what it makes, without end");
  }
  return count;
}

}  // namespace ingot
