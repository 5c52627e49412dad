#pragma once

#include "grammar/compiler.h"
#include "grammar/matcher.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// A byte-level vocabulary: 256 bytes, then `more` (any bytes), then a control token that ends an
// answer and one that only opens prompts.
struct TinyTokens {
  explicit TinyTokens(const std::vector<std::string>& more = {});
  std::int32_t id(std::string_view bytes) const;  // of the token with exactly these bytes
  std::int32_t end_id = 0;
  std::int32_t open_id = 0;
  Tokenizer tokenizer;
};

// Tokens that begin with, end in and hold each other, as real vocabularies have them.
std::vector<std::string> crowded_tokens();

// Time enough for a sanitizer on a busy machine.
inline GrammarCompilerOptions patient() {
  GrammarCompilerOptions options;
  options.limits.max_seconds = 300;
  return options;
}

// A compiler over such a vocabulary whose model has 37 rows more than that.
class TinyCompiler {
 public:
  explicit TinyCompiler(const std::vector<std::string>& more = {},
                        const GrammarCompilerOptions& options = patient());
  static constexpr int kPaddingRows = 37;

  Result<CompiledGrammarPtr> compile(const Grammar& grammar) { return compiler.compile(grammar); }
  // The grammar, which must compile.
  CompiledGrammarPtr ready(const Grammar& grammar);
  // The message of a refusal; "" if it compiles.
  std::string refusal(const Grammar& grammar);

  TinyTokens tokens;
  GrammarCompiler compiler;
};

// Whether the text, byte by byte, and then the end token are accepted.
bool accepts(const TinyCompiler& tiny, const CompiledGrammarPtr& grammar, std::string_view text);
// Whether the text, byte by byte, is the beginning of something.
bool begins(const TinyCompiler& tiny, const CompiledGrammarPtr& grammar, std::string_view text);

inline bool is_allowed(const std::vector<std::uint32_t>& mask, std::int32_t id) {
  return (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0;
}
std::vector<std::uint32_t> mask_of(GrammarMatcher& matcher);
std::vector<std::int32_t> allowed_ids(GrammarMatcher& matcher);

inline Grammar json_schema(std::string text) {
  return {.kind = GrammarKind::kJsonSchema, .text = std::move(text)};
}
inline Grammar regex(std::string text) {
  return {.kind = GrammarKind::kRegex, .text = std::move(text)};
}
inline Grammar ebnf(std::string text) {
  return {.kind = GrammarKind::kEbnf, .text = std::move(text)};
}
inline Grammar choice(std::vector<std::string> choices) {
  return {.kind = GrammarKind::kChoice, .choices = std::move(choices)};
}

}  // namespace ingot
