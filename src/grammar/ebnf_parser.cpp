#include "grammar/ebnf_parser.h"

#include "base/error.h"
#include "text/utf8.h"

#include <algorithm>
#include <map>
#include <optional>

namespace ingot::grammar {

namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct NamedRule {
  int number = 0;
  bool defined = false;
  std::size_t first_use = 0;  // byte
};

class Parser {
 public:
  Parser(std::string_view text, const GrammarLimits& limits, const Deadline& deadline)
      : text_(text), rules_(limits, deadline) {}

  RootedRules parse() {
    skip();
    while (!at_end()) {
      definition();
      skip();
    }
    for (const auto& [name, rule] : names_) {
      if (rule.defined) continue;
      at_ = rule.first_use;
      refuse(fmt::format("rule {:?} is not defined", name));
    }
    const auto root = names_.find("root");
    if (root == names_.end()) refuse("there is no rule \"root\" to start from");
    return {std::move(rules_), root->second.number};
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    const auto before = text_.substr(0, std::min(at_, text_.size()));
    fail(ErrorCode::kRequest, "[guided.grammar] line {}: {}", 1 + std::ranges::count(before, '\n'),
         what);
  }
  bool at_end() const { return at_ >= text_.size(); }
  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }

  void skip() {
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '#') {
        while (!at_end() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    if (at_end() || !is_name_start(text_[at_])) return {};
    while (!at_end() && is_name_char(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  NamedRule& named(const std::string& name, std::size_t where) {
    const auto [it, added] = names_.try_emplace(name);
    if (added) it->second = {.number = rules_.new_rule(), .first_use = where};
    return it->second;
  }

  // Whether a new definition begins here: a name, blanks, "::=".
  bool definition_begins() {
    const std::size_t begin = at_;
    const bool named = !name().empty();
    skip();
    const bool found = named && next_is("::=");
    at_ = begin;
    return found;
  }

  void definition() {
    const std::size_t begin = at_;
    const std::string rule_name = name();
    skip();
    if (rule_name.empty() || !take("::=")) {
      at_ = begin;
      refuse("wanted a rule: name ::= ...");
    }
    NamedRule& rule = named(rule_name, begin);
    if (rule.defined) refuse(fmt::format("rule {:?} is defined twice", rule_name));
    rule.defined = true;
    const int number = rule.number;
    rules_.define(number, alternatives(0));
    skip();
    if (!at_end() && !definition_begins()) refuse(unexpected());
  }

  std::string unexpected() const {
    const Utf8Char c = decode_utf8(text_.data() + at_, text_.data() + text_.size());
    if (!c.valid) return "ill-formed UTF-8";
    if (next_is("(=")) return "lookahead assertions are not supported";
    return fmt::format("unexpected {:?}", text_.substr(at_, static_cast<std::size_t>(c.size)));
  }

  ExprId alternatives(int depth) {
    if (depth > rules_.limits().max_depth)
      refuse(fmt::format("groups nested deeper than {}", rules_.limits().max_depth));
    std::vector<ExprId> choices;
    do {
      choices.push_back(sequence(depth));
      skip();
    } while (take("|"));
    return rules_.choice(std::move(choices));
  }

  ExprId sequence(int depth) {
    std::vector<ExprId> parts;
    for (skip(); !at_end() && !next_is("|") && !next_is(")"); skip()) {
      if (definition_begins()) break;
      const auto part = element(depth);
      if (!part) break;
      parts.push_back(quantified(*part));
    }
    return rules_.sequence(std::move(parts));
  }

  std::optional<ExprId> element(int depth) {
    const std::size_t begin = at_;
    if (next_is("(=")) refuse(unexpected());
    if (take("(")) {
      const ExprId inner = alternatives(depth + 1);
      if (!take(")")) refuse(at_end() ? "'(' without ')'" : unexpected());
      return inner;
    }
    if (take("\"")) return literal();
    if (take("[")) return rules_.chars(char_class());
    if (take(".")) return rules_.chars(CharSet::all());
    const std::string rule_name = name();
    if (rule_name.empty()) return std::nullopt;
    return rules_.rule(named(rule_name, begin).number);
  }

  ExprId quantified(ExprId what) {
    int min = 1;
    int max = 1;
    if (take("*")) {
      min = 0, max = kUnbounded;
    } else if (take("+")) {
      max = kUnbounded;
    } else if (take("?")) {
      min = 0;
    } else if (take("{")) {
      counts(min, max);
    } else {
      return what;
    }
    const int limit = rules_.limits().max_repeat;
    if (min > limit || max > limit) refuse(fmt::format("a repetition of more than {}", limit));
    return rules_.repeat(what, min, max);
  }

  void counts(int& min, int& max) {
    skip();
    min = number();
    skip();
    max = min;
    if (take(",")) {
      skip();
      max = next_is("}") ? kUnbounded : number();
      skip();
    }
    if (!take("}")) refuse("a repetition without '}'");
    if (max != kUnbounded && max < min) refuse("a repetition with its counts reversed");
  }

  int number() {
    const std::size_t begin = at_;
    int value = 0;
    for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = std::min(value * 10 + (text_[at_] - '0'), 100'000'000);
    if (at_ == begin) refuse("wanted a number in {m,n}");
    return value;
  }

  ExprId literal() {
    std::string value;
    while (!take("\"")) {
      if (at_end() || next_is("\n")) refuse("a literal without its closing quote");
      append_utf8(value, character());
    }
    return rules_.text(value);
  }

  CharSet char_class() {
    const bool negative = take("^");
    std::vector<CharRange> ranges;
    while (!take("]")) {
      if (at_end() || next_is("\n")) refuse("'[' without ']'");
      const char32_t first = character();
      char32_t last = first;
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        if (at_end()) refuse("'[' without ']'");
        last = character();
      }
      if (last < first) refuse("a range that does not ascend");
      ranges.push_back({first, last});
    }
    if (ranges.empty()) refuse("an empty class");
    const CharSet set(std::move(ranges));
    return negative ? set.complement() : set;
  }

  char32_t character() {
    if (take("\\")) return escape();
    const Utf8Char c = decode_utf8(text_.data() + at_, text_.data() + text_.size());
    if (!c.valid) refuse("ill-formed UTF-8");
    at_ += static_cast<std::size_t>(c.size);
    return c.code;
  }

  char32_t escape() {
    if (at_end()) refuse("a backslash at the end");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      default:
        break;
    }
    if (std::string_view("\"'\\[]^-.*+?(){}|/$").find(c) != std::string_view::npos)
      return static_cast<unsigned char>(c);
    --at_;
    refuse(fmt::format("unknown escape {:?}", text_.substr(at_ - 1, 2)));
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = at_end() ? -1 : hex_value(text_[at_]);
      if (digit < 0) refuse("an escape that lacks hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) refuse("no Unicode character");
    return value;
  }

  std::string_view text_;
  RuleSet rules_;
  std::size_t at_ = 0;
  std::map<std::string, NamedRule> names_;
};

}  // namespace

RootedRules parse_ebnf(std::string_view text, const GrammarLimits& limits,
                       const Deadline& deadline) {
  return Parser(text, limits, deadline).parse();
}

}  // namespace ingot::grammar
