#include "text/jinja_string.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

namespace ingot::jinja {

namespace {

constexpr std::size_t kTextOverhead = sizeof(Text) + 48;  // with the control block

}  // namespace

Text::Text(std::string text, std::vector<Span> spans, bool safe, Budget* owner)
    : bytes(std::move(text)), foreign(std::move(spans)), html_safe(safe), budget_(owner) {
  if (!budget_) return;
  const std::size_t need = bytes.size() + foreign.size() * sizeof(Span) + kTextOverhead;
  budget_->take(need);
  charged_ = need;
}

Text::~Text() {
  if (budget_) budget_->give_back(charged_);
}

void TextBuilder::charge(std::size_t more) {
  if (bytes_.size() + more > budget_->limits().max_output_bytes)
    fail_template("a string longer than {} bytes", budget_->limits().max_output_bytes);
  budget_->take(more);
  charged_ += more;
}

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!foreign_.empty() && foreign_.back().end == begin) {
    foreign_.back().end = end;
    return;
  }
  budget_->take(sizeof(Span));
  charged_ += sizeof(Span);
  foreign_.push_back({begin, end});
}

void TextBuilder::append(std::string_view bytes, bool foreign) {
  charge(bytes.size());
  const std::size_t at = bytes_.size();
  bytes_.append(bytes);
  if (foreign) mark(at, bytes_.size());
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  charge(end - begin);
  const std::size_t at = bytes_.size();
  bytes_.append(text.bytes, begin, end - begin);
  auto span = std::partition_point(text.foreign.begin(), text.foreign.end(),
                                   [&](const Span& s) { return s.end <= begin; });
  for (; span != text.foreign.end() && span->begin < end; ++span)
    mark(at + std::max(span->begin, begin) - begin, at + std::min(span->end, end) - begin);
}

TextPtr TextBuilder::finish(bool html_safe) {
  budget_->give_back(charged_);
  charged_ = 0;
  auto text = std::make_shared<const Text>(std::exchange(bytes_, {}), std::exchange(foreign_, {}),
                                           html_safe, budget_);
  return text;
}

TextPtr make_text(Budget& budget, std::string bytes, bool foreign) {
  if (bytes.size() > budget.limits().max_output_bytes)
    fail_template("a string longer than {} bytes", budget.limits().max_output_bytes);
  std::vector<Span> spans;
  if (foreign && !bytes.empty()) spans.push_back({0, bytes.size()});
  return std::make_shared<const Text>(std::move(bytes), std::move(spans), false, &budget);
}

TextPtr sub_text(Budget& budget, const Text& text, std::size_t begin, std::size_t end) {
  TextBuilder out(budget);
  out.append(text, begin, end);
  return out.finish(text.html_safe);
}

TextPtr escape_html(Budget& budget, const Text& text) {
  TextBuilder out(budget);
  std::size_t from = 0;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    std::string_view entity;
    switch (text.bytes[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text, from, i);
    out.append(entity, !text.foreign.empty());
    from = i + 1;
  }
  out.append(text, from, text.bytes.size());
  return out.finish(true);
}

std::size_t find_bytes(std::string_view s, std::string_view part, std::size_t from) {
  if (from > s.size()) return s.npos;
  if (part.empty()) return from;
  const void* at = memmem(s.data() + from, s.size() - from, part.data(), part.size());
  return at ? static_cast<std::size_t>(static_cast<const char*>(at) - s.data()) : s.npos;
}

std::size_t code_point_bytes(std::string_view s, std::size_t at) {
  const auto lead = static_cast<unsigned char>(s[at]);
  std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead > 0xf4) length = 1;
  if (at + length > s.size()) return 1;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(s[at + i]) & 0xc0) != 0x80) return 1;
  return length;
}

char32_t decode_code_point(std::string_view s, std::size_t at, std::size_t length) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[at + i]); };
  switch (length) {
    case 2:
      return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
    case 3:
      return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    case 4:
      return (byte(0) & 0x07u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 |
             (byte(3) & 0x3fu);
    default:
      return byte(0) < 0x80 ? byte(0) : 0xfffd;
  }
}

std::size_t count_code_points(std::string_view s) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < s.size(); i += code_point_bytes(s, i)) ++count;
  return count;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

// str.isspace() of Python: bidirectional types WS, B, S and category Zs.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

Span strip_range(std::string_view s, const std::string_view* chars, StripSides sides) {
  const auto strippable = [&](std::size_t at, std::size_t length) {
    if (!chars) return is_space(decode_code_point(s, at, length));
    const std::string_view wanted = s.substr(at, length);
    for (std::size_t i = 0, n = 0; i < chars->size(); i += n) {
      n = code_point_bytes(*chars, i);
      if (chars->substr(i, n) == wanted) return true;
    }
    return false;
  };
  Span range{0, s.size()};
  while (sides.left && range.begin < range.end) {
    const std::size_t length = code_point_bytes(s, range.begin);
    if (!strippable(range.begin, length)) break;
    range.begin += length;
  }
  while (sides.right && range.begin < range.end) {
    std::size_t at = range.end - 1;
    while (at > range.begin && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80) --at;
    if (at + code_point_bytes(s, at) != range.end) at = range.end - 1;
    if (!strippable(at, range.end - at)) break;
    range.end = at;
  }
  return range;
}

bool is_alphabetic(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal_digit(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

namespace {

char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_upper(std::string& out, char32_t c) {
  if (c == 0xdf) {
    out += "SS";  // the one special casing that texts really have
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

bool is_cased(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

}  // namespace

TextPtr change_case(Budget& budget, const Text& text, LetterCase to) {
  const std::string_view s = text.bytes;
  TextBuilder out(budget);
  bool word_start = true;
  std::string piece;
  std::size_t span = 0;
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const char32_t c = decode_code_point(s, i, n);
    const bool lower_letter = is_cased(c) && to_lower(c) == c;
    piece.clear();
    const bool upper = to == LetterCase::kUpper || (to == LetterCase::kTitle && word_start) ||
                       (to == LetterCase::kCapitalize && i == 0) ||
                       (to == LetterCase::kSwap && lower_letter);
    if (n == 1 && c == 0xfffd) {
      piece = s.substr(i, 1);
    } else if (upper) {
      append_upper(piece, c);
    } else {
      append_utf8(piece, to_lower(c));
    }
    word_start = !is_cased(c);
    while (span < text.foreign.size() && text.foreign[span].end <= i) ++span;
    out.append(piece, span < text.foreign.size() && text.foreign[span].begin <= i);
  }
  return out.finish(text.html_safe);
}

bool has_case(std::string_view s, bool upper) {
  bool any = false;
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const char32_t c = decode_code_point(s, i, n);
    if (!is_cased(c)) continue;
    if ((to_lower(c) == c) == upper) return false;
    any = true;
  }
  return any;
}

}  // namespace ingot::jinja
