#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::jinja {

enum class TokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;        // data, name, operator, digits, or the string's value
  std::size_t offset = 0;  // in the normalised source
};

struct Position {
  std::size_t line = 1;
  std::size_t column = 1;  // in bytes
};

// A template that cannot be read, at `offset` of the normalised source.
struct SyntaxFailure {
  std::string message;
  std::size_t offset = 0;
};

// Line ends become \n and one at the very end is dropped (keep_trailing_newline is off).
std::string normalise_source(std::string_view source);
Position position_of(std::string_view normalised, std::size_t offset);

// jinja2 3.1's lexer with trim_blocks and lstrip_blocks. The last token is kEnd. Throws
// SyntaxFailure.
std::vector<Token> tokenize(std::string_view normalised);

}  // namespace ingot::jinja
