#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Character properties, Unicode 16 as in the regex engine of the `tokenizers` library 0.23.
namespace ingot {

// General categories as bits, so that a class of characters is a mask.
enum CharClass : std::uint32_t {
  kLu = 1u << 1,
  kLl = 1u << 2,
  kLt = 1u << 3,
  kLm = 1u << 4,
  kLo = 1u << 5,
  kMn = 1u << 6,
  kMc = 1u << 7,
  kMe = 1u << 8,
  kNd = 1u << 9,
  kNl = 1u << 10,
  kNo = 1u << 11,
  kPc = 1u << 12,
  kPd = 1u << 13,
  kPs = 1u << 14,
  kPe = 1u << 15,
  kPi = 1u << 16,
  kPf = 1u << 17,
  kPo = 1u << 18,
  kSm = 1u << 19,
  kSc = 1u << 20,
  kSk = 1u << 21,
  kSo = 1u << 22,
  kZs = 1u << 23,
  kZl = 1u << 24,
  kZp = 1u << 25,
  kCc = 1u << 26,
  kCf = 1u << 27,
  kCo = 1u << 28,
  kCn = 1u << 0,
  kSpace = 1u << 29,  // White_Space: kZs, kZl, kZp, U+0009..U+000D, U+0085
  kLetter = kLu | kLl | kLt | kLm | kLo,
  kMark = kMn | kMc | kMe,
  kNumber = kNd | kNl | kNo,
  kPunctuation = kPc | kPd | kPs | kPe | kPi | kPf | kPo,
  kSymbol = kSm | kSc | kSk | kSo,
};

// Category bit, and kSpace for white space.
std::uint32_t char_class(char32_t code);

inline bool is_in(char32_t code, std::uint32_t mask) {
  return (char_class(code) & mask) != 0;
}
inline bool is_space(char32_t code) {
  return is_in(code, kSpace);
}
// \w of Rust's regex crate: Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_char(char32_t code);
// Punctuation of BERT: every ASCII sign and category P.
bool is_bert_punctuation(char32_t code);

// Which script the UnicodeScripts pre-tokenizer sees; 0 joins any (Han, Hiragana and Katakana are
// one).
int script_of(char32_t code);

// One of: NFC, NFD, NFKC, NFKD. `text` is UTF-8. Linear but for sorting runs of marks.
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string normal_form(std::string_view text, NormalForm form);

// Appends the full lower-case mapping (U+0130 has two characters).
void append_lower(std::string& out, char32_t code);

// End of the grapheme cluster that begins at `begin`; begin < end.
const char* grapheme_end(const char* begin, const char* end);

}  // namespace ingot
