#include "text/jinja_lexer.h"

#include "text/jinja_string.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace ingot::jinja {

std::string normalise_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

Position position_of(std::string_view normalised, std::size_t offset) {
  offset = std::min(offset, normalised.size());
  const std::string_view before = normalised.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  return {.line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')),
          .column = newline == before.npos ? offset + 1 : offset - newline};
}

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}
bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}
  std::vector<Token> run();

 private:
  void lex_data();
  void lex_comment(std::size_t begin);
  bool lex_raw(std::size_t begin);
  void lex_code(bool block);
  void lex_number();
  void lex_string();
  void lex_operator();
  void emit_data(std::size_t begin, std::size_t end, char sign, bool strip_line);
  std::optional<std::size_t> raw_tag_end(std::size_t begin) const;
  std::size_t skip_space(std::size_t at) const;
  void enter(TokenKind kind, std::size_t begin);
  bool try_end(bool block);
  void finish_tag(std::size_t end, bool trim_newline);
  std::size_t digits(std::size_t at) const;

  char at(std::size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  bool looking_at(std::string_view s, std::size_t i) const {
    return source_.substr(i, s.size()) == s;
  }
  [[noreturn]] void fail(std::string message, std::size_t offset) const {
    throw SyntaxFailure{std::move(message), offset};
  }

  std::string_view source_;
  std::size_t pos_ = 0;
  bool line_starting_ = true;  // what was read last ended a line
  std::vector<Token> tokens_;
  std::string open_;  // closing brackets awaited
};

std::size_t Lexer::skip_space(std::size_t i) const {
  while (i < source_.size()) {
    const std::size_t n = code_point_bytes(source_, i);
    if (!is_space(decode_code_point(source_, i, n))) break;
    i += n;
  }
  return i;
}

void Lexer::emit_data(std::size_t begin, std::size_t end, char sign, bool strip_line) {
  std::string_view text = source_.substr(begin, end - begin);
  if (sign == '-') {
    text = text.substr(0, strip_range(text, nullptr, {.left = false, .right = true}).end);
  } else if (sign != '+' && strip_line) {
    const std::size_t newline = text.rfind('\n');
    const std::size_t from = newline == text.npos ? 0 : newline + 1;
    if ((from > 0 || line_starting_) && skip_space(begin + from) >= end)
      text = text.substr(0, from);
  }
  if (!text.empty()) tokens_.push_back({TokenKind::kData, std::string(text), begin});
}

// Where `{% raw %}` ends if there is one at `begin`.
std::optional<std::size_t> Lexer::raw_tag_end(std::size_t begin) const {
  std::size_t i = begin + 2;
  if (at(i) == '-' || at(i) == '+') ++i;
  i = skip_space(i);
  if (!looking_at("raw", i)) return std::nullopt;
  i = skip_space(i + 3);
  if (looking_at("-%}", i)) return skip_space(i + 3);
  if (looking_at("%}", i)) return i + 2;
  return std::nullopt;
}

bool Lexer::lex_raw(std::size_t begin) {
  const auto body = raw_tag_end(begin);
  if (!body) return false;
  emit_data(pos_, begin, at(begin + 2), true);
  line_starting_ = source_[*body - 1] == '\n';
  for (std::size_t i = source_.find("{%", *body); i != source_.npos;
       i = source_.find("{%", i + 1)) {
    std::size_t end = i + 2;
    if (at(end) == '-' || at(end) == '+') ++end;
    end = skip_space(end);
    if (!looking_at("endraw", end)) continue;
    end = skip_space(end + 6);
    const bool plus = at(end) == '+';
    const bool minus = at(end) == '-';
    if (!looking_at("%}", end + (plus || minus))) continue;
    emit_data(*body, i, at(i + 2), true);
    end += 2 + (plus || minus);
    if (minus) end = skip_space(end);
    finish_tag(end, !plus && !minus);
    return true;
  }
  fail("Missing end of raw directive", begin);
}

// Ends a tag before `end`; trim_blocks takes the newline after it.
void Lexer::finish_tag(std::size_t end, bool trim_newline) {
  pos_ = end;
  if (trim_newline && at(pos_) == '\n') ++pos_;
  line_starting_ = source_[pos_ - 1] == '\n';
}

void Lexer::lex_comment(std::size_t begin) {
  const std::size_t body = begin + 2 + (at(begin + 2) == '-' || at(begin + 2) == '+');
  emit_data(pos_, begin, at(begin + 2), true);
  const std::size_t close = source_.find("#}", body);
  if (close == source_.npos) fail("Missing end of comment tag", begin);
  const char sign = close > body ? source_[close - 1] : '\0';
  std::size_t end = close + 2;
  if (sign == '-') end = skip_space(end);
  finish_tag(end, sign != '-' && sign != '+');
}

void Lexer::enter(TokenKind kind, std::size_t begin) {
  const char sign = at(begin + 2);
  emit_data(pos_, begin, sign, kind == TokenKind::kBlockBegin);
  tokens_.push_back({kind, {}, begin});
  pos_ = begin + 2 + (sign == '-' || sign == '+');
}

void Lexer::lex_data() {
  std::size_t begin = pos_;
  for (;; ++begin) {
    begin = source_.find('{', begin);
    if (begin == source_.npos) {
      tokens_.push_back({TokenKind::kData, std::string(source_.substr(pos_)), pos_});
      pos_ = source_.size();
      return;
    }
    const char next = at(begin + 1);
    if (next == '{') {
      enter(TokenKind::kVariableBegin, begin);
      return lex_code(false);
    }
    if (next == '#') return lex_comment(begin);
    if (next == '%') {
      if (lex_raw(begin)) return;
      enter(TokenKind::kBlockBegin, begin);
      return lex_code(true);
    }
  }
}

bool Lexer::try_end(bool block) {
  const std::string_view close = block ? "%}" : "}}";
  const char sign = at(pos_);
  const bool minus = sign == '-' && looking_at(close, pos_ + 1);
  const bool plus = block && sign == '+' && looking_at(close, pos_ + 1);
  if (!minus && !plus && !looking_at(close, pos_)) return false;
  tokens_.push_back({block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, {}, pos_});
  std::size_t end = pos_ + 2 + (minus || plus);
  if (minus) end = skip_space(end);
  finish_tag(end, block && !minus && !plus);
  return true;
}

void Lexer::lex_code(bool block) {
  const std::size_t begin = pos_;
  while (pos_ < source_.size()) {
    if (open_.empty() && try_end(block)) return;
    const std::size_t space = skip_space(pos_);
    if (space != pos_) {
      pos_ = space;
      continue;
    }
    const char c = source_[pos_];
    if (is_digit(c)) {
      lex_number();
    } else if (is_name_start(c)) {
      const std::size_t from = pos_;
      while (is_name(at(pos_)) && pos_ < source_.size()) ++pos_;
      tokens_.push_back({TokenKind::kName, std::string(source_.substr(from, pos_ - from)), from});
    } else if (c == '\'' || c == '"') {
      lex_string();
    } else {
      lex_operator();
    }
  }
  fail(block ? "unexpected end of template, '%}' is missing"
             : "unexpected end of template, '}}' is missing",
       begin >= 2 ? begin - 2 : 0);
}

// End of digits with single underscores between them.
std::size_t Lexer::digits(std::size_t i) const {
  while (is_digit(at(i)) || (at(i) == '_' && is_digit(at(i + 1)))) ++i;
  return i;
}

void Lexer::lex_number() {
  const std::size_t from = pos_;
  const auto push = [&](TokenKind kind, std::size_t end) {
    std::string text(source_.substr(from, end - from));
    std::erase(text, '_');
    tokens_.push_back({kind, std::move(text), from});
    pos_ = end;
  };
  std::size_t end = digits(from);
  if (from == 0 || source_[from - 1] != '.') {
    std::size_t real = end;
    if (at(real) == '.' && is_digit(at(real + 1))) real = digits(real + 1);
    if (at(real) == 'e' || at(real) == 'E') {
      const std::size_t sign = real + 1 + (at(real + 1) == '+' || at(real + 1) == '-');
      if (is_digit(at(sign))) real = digits(sign);
    }
    if (real != end) return push(TokenKind::kFloat, real);
  }
  const char kind = static_cast<char>(at(from + 1) | 0x20);
  if (source_[from] == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
    const auto valid = [&](char c) {
      const char low = static_cast<char>(c | 0x20);
      if (kind == 'x') return is_digit(c) || (low >= 'a' && low <= 'f');
      return c >= '0' && c <= (kind == 'o' ? '7' : '1');
    };
    std::size_t i = from + 2;
    while (valid(at(i)) || (at(i) == '_' && valid(at(i + 1)))) ++i;
    if (i > from + 2) return push(TokenKind::kInteger, i);
  }
  if (source_[from] == '0') {
    end = from + 1;
    while (at(end) == '0' || (at(end) == '_' && at(end + 1) == '0')) ++end;
  }
  push(TokenKind::kInteger, end);
}

void Lexer::lex_operator() {
  static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
  static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
  std::size_t length = 0;
  for (const auto two : kTwo)
    if (looking_at(two, pos_)) length = 2;
  if (length == 0 && kOne.find(source_[pos_]) != kOne.npos) length = 1;
  if (length == 0)
    fail(fmt::format("unexpected character '{}'",
                     source_.substr(pos_, code_point_bytes(source_, pos_))),
         pos_);
  const char c = length == 1 ? source_[pos_] : '\0';
  if (c == '(') open_ += ')';
  if (c == '[') open_ += ']';
  if (c == '{') open_ += '}';
  if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) fail(fmt::format("unexpected '{}'", c), pos_);
    if (open_.back() != c)
      fail(fmt::format("unexpected '{}', expected '{}'", c, open_.back()), pos_);
    open_.pop_back();
  }
  tokens_.push_back({TokenKind::kOperator, std::string(source_.substr(pos_, length)), pos_});
  pos_ += length;
}

std::string unescape(std::string_view s, std::size_t offset);

void Lexer::lex_string() {
  const char quote = source_[pos_];
  std::size_t end = pos_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) fail("a string is not closed", pos_);
  tokens_.push_back(
      {TokenKind::kString, unescape(source_.substr(pos_ + 1, end - pos_ - 1), pos_), pos_});
  pos_ = end + 1;
}

// Reads `count` hexadecimal digits at `i`, or up to three octal ones.
char32_t read_code(std::string_view s, std::size_t& i, std::size_t count, std::size_t offset) {
  char32_t code = 0;
  for (std::size_t k = 0; k < count; ++k, ++i) {
    const char c = i < s.size() ? s[i] : '\0';
    const char low = static_cast<char>(c | 0x20);
    if (!is_digit(c) && (low < 'a' || low > 'f'))
      throw SyntaxFailure{"a truncated \\x, \\u or \\U escape in a string", offset};
    code = code * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : low - 'a' + 10);
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    throw SyntaxFailure{"an escape in a string names no character", offset};
  return code;
}

// Python's string escapes (jinja2 decodes literals with unicode-escape).
std::string unescape(std::string_view s, std::size_t offset) {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv";
  static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  out.reserve(s.size());
  for (std::size_t i = 0; i < s.size();) {
    if (s[i] != '\\' || i + 1 >= s.size()) {
      out += s[i++];
      continue;
    }
    const char c = s[i + 1];
    i += 2;
    if (const std::size_t known = kFrom.find(c); known != kFrom.npos) {
      out += kTo[known];
    } else if (c == '\n') {
      continue;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_utf8(out, read_code(s, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, offset));
    } else if (c >= '0' && c <= '7') {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int k = 0; k < 2 && i < s.size() && s[i] >= '0' && s[i] <= '7'; ++k)
        code = code * 8 + static_cast<char32_t>(s[i++] - '0');
      append_utf8(out, code);
    } else if (c == 'N') {
      throw SyntaxFailure{"\\N{...} escapes are not supported", offset};
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

std::vector<Token> Lexer::run() {
  while (pos_ < source_.size()) lex_data();
  tokens_.push_back({TokenKind::kEnd, {}, source_.size()});
  return std::move(tokens_);
}

}  // namespace

std::vector<Token> tokenize(std::string_view normalised) {
  return Lexer(normalised).run();
}

}  // namespace ingot::jinja
