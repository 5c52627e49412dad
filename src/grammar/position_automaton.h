#pragma once

#include "grammar/rule_set.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ingot::grammar {

// A regular part of a grammar as its positions (Glushkov's automaton): counted repetitions are
// written out, every position is a piece that is not empty, and after each one it is known which
// may be next. Written as rules `piece, then the rule of what follows it`, it costs a matcher no
// more states than it has positions, however ambiguous it is.
struct PositionAutomaton {
  std::vector<ExprId> pieces;            // [positions]
  std::vector<std::vector<int>> follow;  // [positions] of positions
  std::vector<bool> last;                // [positions] may a text end here?
  std::vector<int> first;
  bool may_be_empty = false;
};

// Whether no rule is named.
bool is_regular(const RuleSet& rules, ExprId id);
// Finite and never empty, without repetitions that vary: a piece that needs no positions of its
// own.
bool is_piece(const RuleSet& rules, ExprId id);

// Nothing where it would have more than `max_edges` steps from a position to the next.
std::optional<PositionAutomaton> make_position_automaton(const RuleSet& rules,
                                                         std::span<const ExprId> sequence,
                                                         std::size_t max_edges);

}  // namespace ingot::grammar
