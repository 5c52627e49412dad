#pragma once

#include "grammar/char_set.h"
#include "grammar/limits.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What every description (schema, pattern, grammar, choices) is turned into before xgrammar sees
// it: a context-free grammar over Unicode characters. Checks and expansions are made here once.
namespace ingot::grammar {

using ExprId = std::int32_t;
inline constexpr int kUnbounded = -1;

enum class ExprKind : std::uint8_t {
  kNever,     // matches nothing
  kText,      // exactly `text`, UTF-8; may be empty
  kChars,     // one character of `chars`, which is not empty
  kSequence,  // `parts` one after another
  kChoice,    // any of `parts`
  kRepeat,    // parts[0], `min` to `max` times (kUnbounded: no upper end)
  kRule,      // what rule number `min` says
};

struct Expr {
  ExprKind kind = ExprKind::kNever;
  int min = 0;
  int max = 0;
  std::string text;
  CharSet chars;
  std::vector<ExprId> parts;
};

class RuleSet {
 public:
  RuleSet(const GrammarLimits& limits, const Deadline& deadline)
      : limits_(limits), deadline_(deadline) {}

  // Expressions, simplified: a sequence with `never` is `never`, a choice drops it, one part is
  // that part. Throws Error{kRequest} past the limits.
  ExprId never() { return add({.kind = ExprKind::kNever}); }
  ExprId text(std::string_view utf8) {
    return add({.kind = ExprKind::kText, .text = std::string(utf8)});
  }
  ExprId chars(CharSet set);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  // Repetitions of what may be empty become optional ones of what is not, so that no text has
  // endlessly many ways to match.
  ExprId repeat(ExprId part, int min, int max);
  ExprId optional(ExprId part) { return choice({text(""), part}); }
  ExprId rule(int number) { return add({.kind = ExprKind::kRule, .min = number}); }
  // Any of the texts, common beginnings written once.
  ExprId any_of(std::vector<std::string> texts);

  int new_rule();  // to be defined before the grammar is used
  void define(int rule, ExprId body) { bodies_[static_cast<std::size_t>(rule)] = body; }
  // What follows the rule's text wherever it is used: spares the matcher work. Wrong means wrong
  // masks.
  void promise_follow(int rule, ExprId follow) { follows_[rule] = follow; }

  const Expr& expr(ExprId id) const { return exprs_[static_cast<std::size_t>(id)]; }
  ExprId body(int rule) const { return bodies_[static_cast<std::size_t>(rule)]; }
  std::optional<ExprId> follow(int rule) const {
    const auto it = follows_.find(rule);
    return it == follows_.end() ? std::nullopt : std::optional(it->second);
  }
  int rules() const { return static_cast<int>(bodies_.size()); }
  bool is_never(ExprId id) const { return expr(id).kind == ExprKind::kNever; }
  const GrammarLimits& limits() const { return limits_; }
  const Deadline& deadline() const { return deadline_; }

  // For each rule, whether any finite text matches it.
  std::vector<bool> productive() const;

 private:
  ExprId add(Expr expr);
  // Empty texts; a rule counts as not empty, for its body may not be known yet.
  bool may_be_empty(ExprId id) const;
  ExprId not_empty(ExprId id);
  std::vector<ExprId> with_characters_joined(std::vector<ExprId> parts);
  bool is_productive(ExprId id, const std::vector<bool>& rules) const;

  GrammarLimits limits_;
  Deadline deadline_;
  std::vector<Expr> exprs_;
  std::vector<ExprId> bodies_;
  std::map<int, ExprId> follows_;
};

// A grammar with the rule it starts from.
struct RootedRules {
  RuleSet rules;
  int root = 0;
};

}  // namespace ingot::grammar
