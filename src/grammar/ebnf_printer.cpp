#include "grammar/ebnf_printer.h"

#include "base/error.h"
#include "grammar/position_automaton.h"
#include "text/utf8.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

namespace ingot::grammar {

namespace {

bool is_plain(char32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
         (code >= '0' && code <= '9');
}

void append_code(std::string& out, char32_t code) {
  if (is_plain(code)) {
    out += static_cast<char>(code);
  } else if (code <= 0xffff) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(code));
  }
}

void append_ranges(std::string& out, std::span<const CharRange> ranges) {
  for (const CharRange& range : ranges) {
    append_code(out, range.first);
    if (range.first == range.last) continue;
    out += '-';
    append_code(out, range.last);
  }
}

std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char *p = text.data(), *end = p + text.size(); p < end;)
    append_code(out, next_code(p, end));
  return out + '"';
}

std::string char_class(const CharSet& set) {
  std::string out = "[";
  append_ranges(out, set.ranges());
  return out + ']';
}

// The same class by what it leaves out. Surrogates are named, since xgrammar's complement would
// take them in.
std::string negative_class(const CharSet& set) {
  std::string out = "[^";
  append_ranges(out, set.complement().ranges());
  return out + "\\ud800-\\udfff]";
}

class Printer {
 public:
  Printer(const RootedRules& grammar, std::string_view where)
      : rules_(grammar.rules), root_(grammar.root), where_(where) {}

  std::string print() {
    productive_ = rules_.productive();
    if (!productive_[static_cast<std::size_t>(root_)])
      fail(ErrorCode::kRequest,
           "[{}] no finite text satisfies it: a rule or $ref without an end, or parts that exclude "
           "each other",
           where_);
    number_of(rule_numbers_, root_, rules_.body(root_));
    while (!pending_.empty()) {
      const Pending next = pending_.front();
      pending_.pop_front();
      print_rule(next);
    }
    return std::move(out_);
  }

 private:
  static std::string name(int number) { return number == 0 ? "root" : fmt::format("r{}", number); }

  struct Pending {
    int number;
    ExprId body;
    std::optional<ExprId> follow;
  };

  template <typename Map, typename Key>
  int number_of(Map& numbers, const Key& key, ExprId body, std::optional<ExprId> follow = {}) {
    const auto [it, added] = numbers.try_emplace(key, next_);
    if (added) pending_.push_back({next_++, body, follow});
    return it->second;
  }

  bool usable(ExprId id) {
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case ExprKind::kNever:
        return false;
      case ExprKind::kText:
      case ExprKind::kChars:
        return true;
      case ExprKind::kSequence:
        for (const ExprId part : e.parts)
          if (!usable(part)) return false;
        return true;
      case ExprKind::kChoice:
        for (const ExprId part : e.parts)
          if (usable(part)) return true;
        return false;
      case ExprKind::kRepeat:
        return e.min == 0 || usable(e.parts[0]);
      case ExprKind::kRule:
        return productive_[static_cast<std::size_t>(e.min)];
    }
    return false;
  }

  void print_rule(const Pending& rule) {
    rules_.deadline().check();
    const Expr& e = rules_.expr(rule.body);
    std::string line = name(rule.number) + " ::= ";
    if (e.kind == ExprKind::kChoice) {
      bool first = true;
      for (const ExprId part : e.parts) {
        if (!usable(part)) continue;
        if (!first) line += " | ";
        first = false;
        line += sequence(part);
        guard(line);
      }
    } else {
      line += sequence(rule.body);
    }
    if (rule.follow) line += fmt::format(" (= {})", sequence(*rule.follow));
    finish(line);
  }

  void finish(std::string& line) {
    line += '\n';
    guard(line);
    out_ += line;
  }

  void guard(const std::string& line) const {
    if (out_.size() + line.size() > rules_.limits().max_printed_bytes)
      fail(ErrorCode::kRequest, "[{}] the grammar grows beyond {} bytes when it is expanded",
           where_, rules_.limits().max_printed_bytes);
  }

  std::string sequence(ExprId id) {
    const Expr& e = rules_.expr(id);
    if (e.kind != ExprKind::kSequence) return parts({&id, 1});
    return parts(e.parts);
  }

  // What stands one after another. From the first to the last part that could match in several
  // ways, what is regular is written as positions; the rest in place.
  std::string parts(std::span<const ExprId> ids) {
    std::string out;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) out += ' ';
      std::size_t end = i;
      if (varies(ids[i])) {
        for (std::size_t k = i; k < ids.size() && is_regular(rules_, ids[k]) && !is_counted(ids[k]);
             ++k)
          if (varies(ids[k])) end = k + 1;
      }
      const auto run = end > i ? positions(ids.subspan(i, end - i)) : std::nullopt;
      if (run) {
        out += name(*run);
        i = end - 1;
      } else {
        out += atom(ids[i], i + 1 < ids.size() ? &rules_.expr(ids[i + 1]) : nullptr);
      }
    }
    return out;
  }

  // Regular and not of one shape; a class alone, however often, is in place as good as anywhere.
  bool varies(ExprId id) {
    const Expr& e = rules_.expr(id);
    if (is_counted(id) || !is_regular(rules_, id) || is_piece(rules_, id)) return false;
    return !(e.kind == ExprKind::kRepeat && e.max == kUnbounded &&
             rules_.expr(e.parts[0]).kind == ExprKind::kChars);
  }

  // A class that takes most characters, up to so many times: xgrammar counts them with one mask for
  // all counts, which would each be dear.
  bool is_counted(ExprId id) {
    const Expr& e = rules_.expr(id);
    return e.kind == ExprKind::kRepeat && e.max != kUnbounded && e.max > 8 &&
           is_wide(rules_.expr(e.parts[0]));
  }
  static bool is_wide(const Expr& e) {
    return e.kind == ExprKind::kChars && e.chars.contains(0x10ffff);
  }

  // `next`: what follows in the same sequence, or null.
  std::string atom(ExprId id, const Expr* next) {
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case ExprKind::kText:
        return literal(e.text);
      case ExprKind::kChars:
        return char_class(e.chars);
      case ExprKind::kRule:
        return name(number_of(rule_numbers_, e.min, rules_.body(e.min), rules_.follow(e.min)));
      case ExprKind::kRepeat:
        return repetition(e, next);
      case ExprKind::kSequence:
      case ExprKind::kChoice:
      case ExprKind::kNever:
        break;
    }
    return name(number_of(expr_numbers_, id, id));
  }

  std::string repetition(const Expr& e, const Expr* next) {
    const ExprId part = e.parts[0];
    if (!usable(part)) return "\"\"";
    const Expr& what = rules_.expr(part);
    if (what.kind == ExprKind::kChars) {
      if (e.min == 0 && e.max == kUnbounded) return char_class(what.chars) + "*";
      // xgrammar counts these at run time, one mask for all counts, when what follows cannot be
      // mistaken for one more character.
      if (e.max != kUnbounded && next != nullptr && next->kind == ExprKind::kText &&
          !next->text.empty() && static_cast<unsigned char>(next->text[0]) < 0x80 &&
          !what.chars.contains(static_cast<unsigned char>(next->text[0])) && is_wide(what))
        return fmt::format("{}{{{},{}}}", negative_class(what.chars), e.min, e.max);
    }
    return chain(part, e.min, e.max);
  }

  // One rule for each position: the pieces that may be next, each with its position's rule. Nothing
  // if there are too many.
  std::optional<int> positions(std::span<const ExprId> ids) {
    constexpr std::size_t kMaxEdges = 20'000;
    const std::vector<ExprId> key(ids.begin(), ids.end());
    if (const auto it = position_rules_.find(key); it != position_rules_.end()) return it->second;
    const auto automaton = make_position_automaton(rules_, ids, kMaxEdges);
    if (!automaton) return std::nullopt;
    const int base = next_ + 1;
    const auto rule_of = [&](int position) { return name(base + position); };
    const auto write = [&](const std::string& rule, const std::vector<int>& next, bool may_end) {
      std::string line = rule + " ::= ";
      if (may_end) line += "\"\"";
      bool more = may_end;
      for (const int position : next) {
        const auto i = static_cast<std::size_t>(position);
        if (more) line += " | ";
        more = true;
        line += atom(automaton->pieces[i], nullptr);
        if (!automaton->follow[i].empty()) line += ' ' + rule_of(position);
      }
      finish(line);
    };
    const int start = next_;
    next_ = base + static_cast<int>(automaton->pieces.size());
    position_rules_[key] = start;
    write(name(start), automaton->first, automaton->may_be_empty);
    for (std::size_t i = 0; i < automaton->pieces.size(); ++i)
      if (!automaton->follow[i].empty())
        write(rule_of(static_cast<int>(i)), automaton->follow[i], automaton->last[i]);
    return start;
  }

  // `min` copies and the tail; the tail's rules call the next one last, which costs the matcher no
  // depth.
  std::string chain(ExprId part, int min, int max) {
    // Repetitions of repetitions by name, or their texts would multiply.
    const std::string one = rules_.expr(part).kind == ExprKind::kRepeat
                                ? name(number_of(expr_numbers_, part, part))
                                : atom(part, nullptr);
    std::string tail;
    if (max == kUnbounded && rules_.expr(part).kind == ExprKind::kChars) {
      tail = one + "*";
    } else if (max == kUnbounded) {
      const auto [it, added] = stars_.try_emplace(part, next_);
      tail = name(it->second);
      if (added) {
        ++next_;
        std::string line = fmt::format("{} ::= \"\" | {} {}", tail, one, tail);
        finish(line);
      }
    } else {
      tail = at_most(part, one, max - min);
    }
    return copies(one, min) + tail;
  }

  // A long row of copies is made of rules of kRow copies: xgrammar's time grows with the square of
  // a rule's length.
  std::string copies(const std::string& one, int count) {
    constexpr int kRow = 32;
    std::string out;
    if (count >= 2 * kRow) {
      const auto [it, added] = rows_.try_emplace(one, next_);
      const std::string row = name(it->second);
      if (added) {
        ++next_;
        std::string line = fmt::format("{} ::= {}", row, copies(one, kRow));
        finish(line);
      }
      out = copies(row, count / kRow);
      count %= kRow;
    }
    for (int i = 0; i < count; ++i) out += one + ' ';
    return out;
  }

  std::string at_most(ExprId part, const std::string& one, int count) {
    std::string tail;
    for (int i = 1; i <= count; ++i) {
      const auto [it, added] = limited_.try_emplace({part, i}, next_);
      const std::string shorter = std::move(tail);
      tail = name(it->second);
      if (!added) continue;
      ++next_;
      std::string line = fmt::format("{} ::= \"\" | {} {}", tail, one, shorter);
      finish(line);
    }
    return tail;
  }

  const RuleSet& rules_;
  int root_;
  std::string_view where_;
  std::vector<bool> productive_;
  std::string out_;
  int next_ = 0;  // number of the next rule; 0 is the root
  std::deque<Pending> pending_;
  std::unordered_map<int, int> rule_numbers_;
  std::unordered_map<ExprId, int> expr_numbers_;
  std::unordered_map<ExprId, int> stars_;
  std::map<std::pair<ExprId, int>, int> limited_;
  std::map<std::string, int> rows_;
  std::map<std::vector<ExprId>, int> position_rules_;
};

}  // namespace

std::string print_ebnf(const RootedRules& grammar, std::string_view where) {
  return Printer(grammar, where).print();
}

}  // namespace ingot::grammar
