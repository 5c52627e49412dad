#include "grammar/regex_parser.h"

#include "base/error.h"
#include "text/utf8.h"

#include <optional>

namespace ingot::grammar {

namespace {

const CharSet& line_characters() {
  static const CharSet set =
      CharSet({{'\n', '\n'}, {'\r', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}).complement();
  return set;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr int kShortRun = 8;

// What stands in a class: a set, and the set that its complement leaves out.
struct ClassPart {
  CharSet narrow, wide;
  std::optional<char32_t> single;  // may begin or end a range
};

class Parser {
 public:
  Parser(RuleSet& rules, std::string_view pattern, const RegexUse& use)
      : rules_(rules), text_(pattern), use_(use) {}

  ExprId parse() {
    if (text_.find('\0') != std::string_view::npos) refuse("a NUL character; write \\0");
    const ExprId whole = alternatives(0);
    if (!at_end()) refuse("')' without '('");
    return whole;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kRequest, "[{}] {} at byte {} of the pattern", use_.where, what, at_);
  }
  bool at_end() const { return at_ >= text_.size(); }
  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }

  ExprId write(const CharSet& set) {
    set_ = set;
    return use_.write_char(rules_, set);
  }
  ExprId anything() { return rules_.repeat(write(CharSet::all()), 0, kUnbounded); }

  ExprId alternatives(int depth) {
    if (depth > rules_.limits().max_depth)
      refuse(fmt::format("groups nested deeper than {}", rules_.limits().max_depth));
    std::vector<ExprId> choices;
    do {
      choices.push_back(alternative(depth));
    } while (take("|"));
    return rules_.choice(std::move(choices));
  }

  ExprId alternative(int depth) {
    std::vector<ExprId> parts;
    const bool anchored_begin = depth == 0 && (take("^") || take("\\A"));
    if (depth == 0 && use_.search && !anchored_begin) parts.push_back(anything());
    bool anchored_end = false;
    while (!at_end() && !next_is("|") && !next_is(")")) {
      if (depth == 0 && (take("$") || take("\\Z") || take("\\z"))) {
        if (!at_end() && !next_is("|")) refuse("'$' before the end");
        anchored_end = true;
        break;
      }
      parts.push_back(quantified(depth));
    }
    if (depth == 0 && use_.search && !anchored_end) parts.push_back(anything());
    return rules_.sequence(std::move(parts));
  }

  ExprId quantified(int depth) {
    const std::size_t begin = at_;
    set_ = std::nullopt;
    ExprId what = element(depth);
    const std::optional<CharSet> set = std::move(set_);
    int min = 1;
    int max = 1;
    if (take("*")) {
      min = 0, max = kUnbounded;
    } else if (take("+")) {
      max = kUnbounded;
    } else if (take("?")) {
      min = 0;
    } else if (!counts(min, max)) {
      return what;
    }
    take("?");  // lazy: the same texts match
    if (next_is("+")) refuse("a possessive quantifier");
    if (next_is("*") || next_is("?")) refuse("two quantifiers in a row");
    const int limit = rules_.limits().max_repeat;
    if (min > limit || max > limit) {
      at_ = begin;
      refuse(fmt::format("a repetition of more than {}", limit));
    }
    if (set && max > kShortRun && use_.run_of) {
      const CharSet run = use_.run_of(*set);
      if (!run.empty()) what = rules_.chars(run);
    }
    return rules_.repeat(what, min, max);
  }

  // {m}, {m,}, {m,n}; anything else after "{" is text.
  bool counts(int& min, int& max) {
    if (!next_is("{")) return false;
    const std::size_t begin = at_++;
    const auto low = number();
    if (low) {
      min = max = *low;
      if (take(",")) {
        const auto high = number();
        max = high ? *high : kUnbounded;
      }
    }
    if (!low || !take("}")) {
      at_ = begin;
      return false;
    }
    if (max != kUnbounded && max < min) refuse("a repetition with its counts reversed");
    return true;
  }

  std::optional<int> number() {
    const std::size_t begin = at_;
    int value = 0;
    for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = std::min(value * 10 + (text_[at_] - '0'), 100'000'000);
    if (at_ == begin) return std::nullopt;
    return value;
  }

  ExprId element(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return write(char_class());
    if (take(".")) return write(line_characters());
    if (next_is("\\")) return write(escape(false).narrow);
    for (const char* misplaced : {"*", "+", "?"})
      if (next_is(misplaced)) refuse("a quantifier with nothing before it");
    if (next_is("^") || next_is("$"))
      refuse("'^' or '$' inside; they are supported at the ends only");
    return write(CharSet::one(literal()));
  }

  char32_t literal() {
    const Utf8Char c = decode_utf8(text_.data() + at_, text_.data() + text_.size());
    if (!c.valid) refuse("ill-formed UTF-8");
    at_ += static_cast<std::size_t>(c.size);
    return c.code;
  }

  ExprId group(int depth) {
    if (take("?")) {
      if (next_is("=") || next_is("!")) refuse("a lookahead");
      if (next_is("<=") || next_is("<!")) refuse("a lookbehind");
      if (take("P<") || take("<")) {
        const std::size_t close = text_.find('>', at_);
        if (close == std::string_view::npos) refuse("a group's name without '>'");
        at_ = close + 1;
      } else if (!take(":")) {
        refuse("a group with flags or of another special kind");
      }
    }
    const ExprId inner = alternatives(depth + 1);
    if (!take(")")) refuse("'(' without ')'");
    set_ = std::nullopt;
    return inner;
  }

  CharSet char_class() {
    const bool negative = take("^");
    CharSet narrow, wide;
    bool first = true;
    while (!next_is("]")) {
      if (at_end()) refuse("'[' without ']'");
      if (next_is("[:") || next_is("&&") || next_is("--")) refuse("a class operation");
      ClassPart part = class_part();
      if (part.single && next_is("-") && !next_is("-]")) {
        ++at_;
        if (at_end()) refuse("'[' without ']'");
        const ClassPart last = class_part();
        if (!last.single || *last.single < *part.single) refuse("a range that does not ascend");
        part.narrow = part.wide = CharSet({{*part.single, *last.single}});
      }
      narrow = narrow.united(part.narrow);
      wide = wide.united(part.wide);
      first = false;
    }
    if (first) refuse("an empty class");
    ++at_;
    return negative ? wide.complement() : narrow;
  }

  ClassPart class_part() {
    if (next_is("\\")) return escape(true);
    return single(literal());
  }

  static ClassPart single(char32_t code) {
    return {.narrow = CharSet::one(code), .wide = CharSet::one(code), .single = code};
  }

  ClassPart escape(bool in_class) {
    ++at_;
    if (at_end()) refuse("a backslash at the end");
    const char c = text_[at_++];
    switch (c) {
      case 'd':
      case 'w':
      case 's':
        return {.narrow = class_escape(c).narrow, .wide = class_escape(c).wide, .single = {}};
      case 'D':
      case 'W':
      case 'S': {
        const ClassEscape& opposite = class_escape(static_cast<char>(c - 'A' + 'a'));
        return {.narrow = opposite.wide.complement(),
                .wide = opposite.narrow.complement(),
                .single = {}};
      }
      case 'n':
        return single('\n');
      case 'r':
        return single('\r');
      case 't':
        return single('\t');
      case 'f':
        return single('\f');
      case 'v':
        return single('\v');
      case 'x':
        return single(hex(2));
      case 'u':
        return single(unicode());
      case 'c':
        return single(control());
      case 'b':
        if (in_class) return single('\b');
        refuse("\\b, a word boundary");
      default:
        break;
    }
    return plain_escape(c);
  }

  ClassPart plain_escape(char c) {
    --at_;
    if (c == '0') {
      ++at_;
      if (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') refuse("an octal escape");
      return single(0);
    }
    if (c >= '1' && c <= '9') refuse("a back reference");
    if (c == 'p' || c == 'P') refuse("a Unicode property class");
    if (c == 'k') refuse("a named back reference");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      refuse(fmt::format("the unknown escape \\{}", c));
    return single(literal());
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = at_end() ? -1 : hex_value(text_[at_]);
      if (digit < 0) refuse("an escape that lacks hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    return value;
  }

  char32_t unicode() {
    char32_t code = 0;
    if (take("{")) {
      const std::size_t begin = at_;
      while (!at_end() && hex_value(text_[at_]) >= 0 && at_ - begin < 6)
        code = code * 16 + static_cast<char32_t>(hex_value(text_[at_++]));
      if (at_ == begin || !take("}")) refuse("\\u{...} without one to six hexadecimal digits");
    } else {
      code = hex(4);
      if (code >= 0xd800 && code <= 0xdbff && take("\\u")) {
        const char32_t low = hex(4);
        if (low < 0xdc00 || low > 0xdfff) refuse("half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      }
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) refuse("no Unicode character");
    return code;
  }

  char32_t control() {
    if (at_end()) refuse("\\c without a letter");
    const char c = text_[at_];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) refuse("\\c without a letter");
    ++at_;
    return static_cast<char32_t>(c) & 31;
  }

  RuleSet& rules_;
  std::string_view text_;
  const RegexUse& use_;
  std::size_t at_ = 0;
  std::optional<CharSet> set_;  // of the element just written, if it is one character
};

}  // namespace

ExprId parse_regex(RuleSet& rules, std::string_view pattern, const RegexUse& use) {
  return Parser(rules, pattern, use).parse();
}

}  // namespace ingot::grammar
