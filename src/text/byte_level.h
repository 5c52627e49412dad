#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// GPT-2's alphabet: every byte as one printable character, so that vocabularies are text.
namespace ingot {

void append_byte_level(std::string& out, std::string_view bytes);
inline std::string to_byte_level(std::string_view bytes) {
  std::string out;
  append_byte_level(out, bytes);
  return out;
}
// The byte a character stands for; -1 if it is not of the alphabet.
int byte_of_char(char32_t code);
// The bytes; nothing if any character is not of the alphabet.
std::optional<std::string> from_byte_level(std::string_view text);

// Appends the bytes; false, and `out` as it was, if any character is not of the alphabet.
bool append_from_byte_level(std::string& out, std::string_view text);

// The byte of "<0xAB>"; -1 for any other text.
int byte_token_value(std::string_view text);
std::string byte_token_text(std::uint8_t byte);

}  // namespace ingot
