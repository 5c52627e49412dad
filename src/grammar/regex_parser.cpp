#include "grammar/regex_parser.h"

#include "base/error.h"
#include "text/utf8.h"

#include <optional>
#include <utility>

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
    const bool anchored_begin = depth == 0 && take("^");
    if (depth == 0 && use_.search && !anchored_begin) parts.push_back(anything());
    bool anchored_end = false;
    while (!at_end() && !next_is("|") && !next_is(")")) {
      if (depth == 0 && take("$")) {
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
    if (next_is("*") || next_is("?") || braces()) refuse("two quantifiers in a row");
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

  struct Counts {
    int min = 0;
    int max = kUnbounded;
    std::size_t end = 0;
  };

  // What "{m}", "{m,}" or "{m,n}" says, if that comes next; after any other "{" both languages read
  // text, but for "{,n}", which only ECMAScript does.
  std::optional<Counts> braces() {
    if (!next_is("{")) return std::nullopt;
    const std::size_t begin = at_++;
    const auto low = number();
    const bool comma = take(",");
    const auto high = comma ? number() : low;
    const bool closed = (low || comma) && take("}");
    const std::size_t end = std::exchange(at_, begin);
    if (!closed) return std::nullopt;
    if (!low)
      refuse(
          fmt::format("{:?}, a repetition to some languages and text to others; write "
                      "\"{{0{}\" or \"\\{{{}\"",
                      text_.substr(begin, end - begin), text_.substr(begin + 1, end - begin - 1),
                      text_.substr(begin + 1, end - begin - 1)));
    if (high && *high < *low) refuse("a repetition with its counts reversed");
    return Counts{.min = *low, .max = high.value_or(kUnbounded), .end = end};
  }

  bool counts(int& min, int& max) {
    const auto found = braces();
    if (!found) return false;
    min = found->min, max = found->max, at_ = found->end;
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
    if (braces()) refuse("a quantifier with nothing before it");
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
      if (next_is("<") || next_is("P<"))
        refuse("a named group, which no two languages write alike; write (...)");
      if (!take(":")) refuse("a group with flags or of another special kind");
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
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        if (at_end()) refuse("'[' without ']'");
        const ClassPart last = class_part();
        if (!part.single || !last.single)
          refuse("a range from or to a class; write '-' at the end, or \\-,");
        if (*last.single < *part.single) refuse("a range that does not ascend");
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
        refuse("\\c, which not every language knows; write \\xHH");
      case 'A':
        refuse("\\A, which not every language knows; write ^");
      case 'Z':
      case 'z':
        refuse(fmt::format("\\{}, which not every language knows; write $", c));
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

  // Python joins no pair of surrogates and has no \u{H}.
  char32_t unicode() {
    constexpr std::string_view kRemedy = "write the character itself";
    if (next_is("{"))
      refuse(fmt::format("\\u{{...}}, which not every language knows; {}", kRemedy));
    const char32_t code = hex(4);
    if (code >= 0xd800 && code <= 0xdfff)
      refuse(fmt::format("a surrogate, which is no character; {}", kRemedy));
    return code;
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
