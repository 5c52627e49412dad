#include "grammar/position_automaton.h"

#include <algorithm>

namespace ingot::grammar {

bool is_regular(const RuleSet& rules, ExprId id) {
  const Expr& e = rules.expr(id);
  if (e.kind == ExprKind::kRule) return false;
  return std::ranges::all_of(e.parts, [&](ExprId part) { return is_regular(rules, part); });
}

bool is_piece(const RuleSet& rules, ExprId id) {
  const Expr& e = rules.expr(id);
  const auto piece = [&](ExprId part) { return is_piece(rules, part); };
  switch (e.kind) {
    case ExprKind::kText:
      return !e.text.empty();
    case ExprKind::kChars:
      return true;
    case ExprKind::kSequence:
    case ExprKind::kChoice:
      return std::ranges::all_of(e.parts, piece);
    case ExprKind::kRepeat:
      return e.min > 0 && e.min == e.max && piece(e.parts[0]);
    default:
      return false;
  }
}

namespace {

class Builder {
 public:
  Builder(const RuleSet& rules, std::size_t max_edges) : rules_(rules), max_edges_(max_edges) {}

  std::optional<PositionAutomaton> build(std::span<const ExprId> sequence) {
    const Part whole = in_a_row(sequence);
    if (too_large_) return std::nullopt;
    for (const int position : whole.last) made_.last[static_cast<std::size_t>(position)] = true;
    made_.first = whole.first;
    made_.may_be_empty = whole.may_be_empty;
    for (auto& next : made_.follow) {
      std::ranges::sort(next);
      const auto repeated = std::ranges::unique(next);
      next.erase(repeated.begin(), repeated.end());
    }
    return std::move(made_);
  }

 private:
  struct Part {
    bool may_be_empty = true;
    std::vector<int> first, last;
  };

  Part piece(ExprId id) {
    const int position = static_cast<int>(made_.pieces.size());
    made_.pieces.push_back(id);
    made_.follow.emplace_back();
    made_.last.push_back(false);
    too_large_ |= made_.pieces.size() > max_edges_;
    return {.may_be_empty = false, .first = {position}, .last = {position}};
  }

  void connect(const std::vector<int>& from, const std::vector<int>& to) {
    edges_ += from.size() * to.size();
    too_large_ |= edges_ > max_edges_;
    if (too_large_) return;
    for (const int position : from) {
      auto& next = made_.follow[static_cast<std::size_t>(position)];
      next.insert(next.end(), to.begin(), to.end());
    }
  }

  void append(Part& row, const Part& next) {
    connect(row.last, next.first);
    if (row.may_be_empty) row.first.insert(row.first.end(), next.first.begin(), next.first.end());
    if (!next.may_be_empty) row.last.clear();
    row.last.insert(row.last.end(), next.last.begin(), next.last.end());
    row.may_be_empty &= next.may_be_empty;
    edges_ += row.first.size() + row.last.size();
    too_large_ |= edges_ > max_edges_;
  }

  Part in_a_row(std::span<const ExprId> ids) {
    Part row;
    for (const ExprId id : ids) {
      if (too_large_) break;
      append(row, part(id));
    }
    return row;
  }

  Part part(ExprId id) {
    if (is_piece(rules_, id)) return piece(id);
    const Expr& e = rules_.expr(id);
    if (e.kind == ExprKind::kSequence) return in_a_row(e.parts);
    if (e.kind == ExprKind::kRepeat) return repeat(e);
    Part any;
    any.may_be_empty = false;
    if (e.kind == ExprKind::kText) any.may_be_empty = true;
    for (const ExprId choice : e.parts) {
      if (too_large_) break;
      const Part one = part(choice);
      any.may_be_empty |= one.may_be_empty;
      any.first.insert(any.first.end(), one.first.begin(), one.first.end());
      any.last.insert(any.last.end(), one.last.begin(), one.last.end());
    }
    return any;
  }

  // Copies, each reached from the one before only; what is repeated is never empty (RuleSet).
  Part repeat(const Expr& e) {
    Part row;
    row.may_be_empty = e.min == 0;
    const int copies = e.max == kUnbounded ? std::max(e.min, 1) : e.max;
    std::vector<int> before;
    for (int i = 0; i < copies && !too_large_; ++i) {
      Part one = part(e.parts[0]);
      if (i == 0) row.first = one.first;
      connect(before, one.first);
      if (e.max == kUnbounded && i + 1 == copies) connect(one.last, one.first);
      if (i + 1 >= e.min) row.last.insert(row.last.end(), one.last.begin(), one.last.end());
      before = std::move(one.last);
    }
    return row;
  }

  const RuleSet& rules_;
  std::size_t max_edges_;
  std::size_t edges_ = 0;
  bool too_large_ = false;
  PositionAutomaton made_;
};

}  // namespace

std::optional<PositionAutomaton> make_position_automaton(const RuleSet& rules,
                                                         std::span<const ExprId> sequence,
                                                         std::size_t max_edges) {
  return Builder(rules, max_edges).build(sequence);
}

}  // namespace ingot::grammar
