#include "text/byte_level.h"

#include "text/utf8.h"

#include <array>

namespace ingot {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

struct Alphabet {
  std::array<std::uint16_t, 256> code{};   // of a byte
  std::array<std::int16_t, 0x144> byte{};  // of a code point
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = is_printable(byte) ? byte : next++;
    alphabet.code[static_cast<std::size_t>(byte)] = static_cast<std::uint16_t>(code);
    alphabet.byte[static_cast<std::size_t>(code)] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void append_byte_level(std::string& out, std::string_view bytes) {
  for (const char c : bytes) append_utf8(out, kAlphabet.code[static_cast<unsigned char>(c)]);
}

int byte_of_char(char32_t code) {
  return code < kAlphabet.byte.size() ? kAlphabet.byte[code] : -1;
}

bool append_from_byte_level(std::string& out, std::string_view text) {
  const std::size_t before = out.size();
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    const int byte = byte_of_char(next_code(p, end));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
  }
  return true;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string out;
  if (!append_from_byte_level(out, text)) return std::nullopt;
  return out;
}

int byte_token_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_value(text[3]);
  const int low = hex_value(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string byte_token_text(std::uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

}  // namespace ingot
