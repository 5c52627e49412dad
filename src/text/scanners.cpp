#include "text/scanners.h"

#include "text/unicode.h"
#include "text/utf8.h"

#include <array>

namespace ingot {
namespace {

constexpr std::array<std::uint32_t, 128> make_ascii() {
  std::array<std::uint32_t, 128> table{};
  for (int c = 0; c < 128; ++c) {
    std::uint32_t bits = kSm;  // only letter, number, space and the rest are told apart here
    if (c >= 'A' && c <= 'Z') bits = kLu;
    if (c >= 'a' && c <= 'z') bits = kLl;
    if (c >= '0' && c <= '9') bits = kNd;
    if ((c >= 9 && c <= 13) || c == ' ') bits = kSpace;
    table[static_cast<std::size_t>(c)] = bits;
  }
  return table;
}
constexpr std::array<std::uint32_t, 128> kAscii = make_ascii();

struct Char {
  std::uint32_t bits = 0;  // 0: end of the text
  int size = 0;
};

inline Char peek(const char* p, const char* end) {
  if (p >= end) return {};
  const auto byte = static_cast<unsigned char>(*p);
  if (byte < 0x80) return {kAscii[byte], 1};
  const Utf8Char c = decode_utf8(p, end);
  return {char_class(c.code), c.size};
}

inline const char* skip_run(const char* p, const char* end, std::uint32_t mask) {
  for (;;) {
    const Char c = peek(p, end);
    if ((c.bits & mask) == 0) return p;
    p += c.size;
  }
}

inline const char* skip_others(const char* p, const char* end, std::uint32_t excluded) {
  for (;;) {
    const Char c = peek(p, end);
    if (c.size == 0 || (c.bits & excluded) != 0) return p;
    p += c.size;
  }
}

inline bool is_newline(char c) {
  return c == '\n' || c == '\r';
}

// End of 's 't 're 've 'm 'll 'd at p, or nullptr. U+017F folds to s.
template <bool kAnyCase>
const char* contraction(const char* p, const char* end) {
  if (end - p < 2 || *p != '\'') return nullptr;
  const auto lower = [](char c) { return kAnyCase && c >= 'A' && c <= 'Z' ? char(c + 32) : c; };
  const char a = lower(p[1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (end - p < 3) return nullptr;
  if (kAnyCase && p[1] == '\xc5' && p[2] == '\xbf') return p + 3;
  const char b = lower(p[2]);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
  return nullptr;
}

// \s+(?!\S)|\s+ at a white space character.
inline const char* blanks(const char* p, const char* end) {
  const char* last = p;
  const char* q = p;
  for (;;) {
    const Char c = peek(q, end);
    if ((c.bits & kSpace) == 0) break;
    last = q;
    q += c.size;
  }
  return q == end || last == p ? q : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
inline const char* blanks_or_lines(const char* p, const char* end) {
  const char* last = p;
  const char* after_newline = nullptr;
  const char* q = p;
  for (;;) {
    const Char c = peek(q, end);
    if ((c.bits & kSpace) == 0) break;
    last = q;
    q += c.size;
    if (is_newline(*last)) after_newline = q;
  }
  if (after_newline != nullptr) return after_newline;
  return q == end || last == p ? q : last;
}

const char* scan_gpt2(const char* p, const char* end) {
  if (*p == '\'')
    if (const char* q = contraction<false>(p, end)) return q;
  const char* q = *p == ' ' ? p + 1 : p;
  const Char c = peek(q, end);
  if ((c.bits & kLetter) != 0) return skip_run(q + c.size, end, kLetter);
  if ((c.bits & kNumber) != 0) return skip_run(q + c.size, end, kNumber);
  if (c.size != 0 && (c.bits & kSpace) == 0)
    return skip_others(q + c.size, end, kSpace | kLetter | kNumber);
  return blanks(p, end);
}

const char* digits(const char* p, const char* end, int most) {
  for (int i = 0; i < most; ++i) {
    const Char c = peek(p, end);
    if ((c.bits & kNumber) == 0) break;
    p += c.size;
  }
  return p;
}

// What follows the words in all newer patterns:  ?[^\s\p{L}\p{N}]+[\r\n]* and white space.
template <std::uint32_t kWord, bool kSlash>
const char* signs_or_blanks(const char* p, const char* end) {
  const char* q = *p == ' ' ? p + 1 : p;
  const Char c = peek(q, end);
  if (c.size != 0 && (c.bits & (kSpace | kWord | kNumber)) == 0) {
    q = skip_others(q + c.size, end, kSpace | kWord | kNumber);
    while (q < end && (is_newline(*q) || (kSlash && *q == '/'))) ++q;
    return q;
  }
  if ((peek(p, end).bits & kSpace) != 0) return blanks_or_lines(p, end);
  return p + peek(p, end).size;  // no alternative takes it: a gap of one character
}

template <int kDigits, std::uint32_t kWord>
const char* scan_llama3(const char* p, const char* end) {
  if (*p == '\'')
    if (const char* q = contraction<true>(p, end)) return q;
  const Char c = peek(p, end);
  if ((c.bits & kWord) != 0) return skip_run(p + c.size, end, kWord);
  if ((c.bits & kNumber) != 0) return digits(p, end, kDigits);
  if (!is_newline(*p)) {
    const Char next = peek(p + c.size, end);
    if ((next.bits & kWord) != 0) return skip_run(p + c.size + next.size, end, kWord);
  }
  return signs_or_blanks<kWord, false>(p, end);
}

constexpr std::uint32_t kUpper = kLu | kLt | kLm | kLo | kMark;
constexpr std::uint32_t kLower = kLl | kLm | kLo | kMark;

// [upper]*[lower]+ from q, or nullptr; greedy with backtracking into the upper run.
const char* upper_then_lower(const char* q, const char* end) {
  const char* last_both = nullptr;
  for (;;) {
    const Char c = peek(q, end);
    if ((c.bits & kUpper) == 0) {
      if ((c.bits & kLower) != 0) return skip_run(q + c.size, end, kLower);
      return last_both;
    }
    q += c.size;
    if ((c.bits & kLower) != 0) last_both = q;
  }
}

template <int kDigits, bool kContractions>
const char* scan_cased(const char* p, const char* end) {
  const Char c = peek(p, end);
  if ((c.bits & kNumber) != 0) return digits(p, end, kDigits);
  const bool may_prefix = (c.bits & kLetter) == 0 && !is_newline(*p);
  const char* word = nullptr;
  if (may_prefix) word = upper_then_lower(p + c.size, end);
  if (word == nullptr && (c.bits & (kLetter | kMark)) != 0) word = upper_then_lower(p, end);
  if (word == nullptr) {  // [upper]+[lower]*: here only the upper run is left
    const char* q = may_prefix ? p + c.size : p;
    const char* run = skip_run(q, end, kUpper);
    if (run != q) word = run;
  }
  if (word == nullptr) return signs_or_blanks<kLetter, true>(p, end);
  if constexpr (kContractions)
    if (const char* q = contraction<true>(word, end)) return q;
  return word;
}

}  // namespace

Scanner scanner_of(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return scan_gpt2;
  if (pattern == kLlama3Pattern) return scan_llama3<3, kLetter>;
  if (pattern == kQwen2Pattern) return scan_llama3<1, kLetter>;
  if (pattern == kQwen35Pattern) return scan_llama3 < 1, kLetter | kMark > ;
  if (pattern == kO200kPattern) return scan_cased<3, true>;
  if (pattern == kTekkenPattern) return scan_cased<1, false>;
  return nullptr;
}

}  // namespace ingot
