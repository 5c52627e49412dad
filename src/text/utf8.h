#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

struct Utf8Char {
  char32_t code;  // U+FFFD where the bytes are not UTF-8
  int size;       // bytes used, at least 1: of an ill-formed sequence its maximal subpart
  bool valid;
};

// Decodes at p; p < end.
Utf8Char decode_utf8_slow(const char* p, const char* end);
inline Utf8Char decode_utf8(const char* p, const char* end) {
  const auto byte = static_cast<unsigned char>(*p);
  if (byte < 0x80) return {byte, 1, true};
  return decode_utf8_slow(p, end);
}

// Whether the bytes could begin a character that more bytes would complete; p < end.
bool is_incomplete_utf8(const char* p, const char* end);

// Appends a Unicode scalar value; anything else becomes U+FFFD.
void append_utf8(std::string& out, char32_t code);

bool is_utf8(std::string_view text);
// Every maximal ill-formed subpart becomes one U+FFFD (as Rust's from_utf8_lossy and Python's
// errors="replace").
std::string lossy_utf8(std::string_view bytes);

// Steps over text known to be UTF-8, yielding code points.
inline char32_t next_code(const char*& p, const char* end) {
  const Utf8Char c = decode_utf8(p, end);
  p += c.size;
  return c.code;
}
// Start of the character before p; begin < p.
inline const char* previous_start(const char* begin, const char* p) {
  do {
    --p;
  } while (p > begin && (static_cast<unsigned char>(*p) & 0xc0) == 0x80);
  return p;
}

// lossy_utf8 of a text that comes in pieces; holds back at most three bytes.
class LossyUtf8 {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  char held_[4] = {};
  int count_ = 0;
};

}  // namespace ingot
