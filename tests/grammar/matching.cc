#include "tests/grammar/matching.h"

#include "text/byte_level.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ingot {

namespace {

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;

Tokenizer make_tokenizer(const std::vector<std::string>& more) {
  GgufVocab vocab;
  vocab.model = "gpt2";
  vocab.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    vocab.tokens.push_back(to_byte_level(std::string(1, static_cast<char>(byte))));
  for (const std::string& bytes : more) vocab.tokens.push_back(to_byte_level(bytes));
  vocab.token_types.assign(vocab.tokens.size(), kNormal);
  vocab.tokens.insert(vocab.tokens.end(), {"<|end|>", "<|open|>"});
  vocab.token_types.insert(vocab.token_types.end(), {kControl, kControl});
  vocab.eos_id = static_cast<std::int32_t>(vocab.tokens.size() - 2);
  return tokenizer_from_gguf(vocab);
}

}  // namespace

std::vector<std::string> crowded_tokens() {
  std::set<std::string> tokens;
  std::mt19937 random(5);
  const std::string_view letters = "ab-\" ,:{}[]1\n";
  while (tokens.size() < 400) {
    std::string token;
    const auto size = 2 + random() % 4;
    while (token.size() < size) token += letters[random() % letters.size()];
    tokens.insert(token);
  }
  tokens.insert({"é", "éa", "\xc3\xa9\xc3",
                 "\xa9"
                 "a",
                 "true", "ru", "rue}", "        ", "\n\n\n\n\n\n", "\",\n                 ",
                 "a\"   \"b"});
  return {tokens.begin(), tokens.end()};
}

TinyTokens::TinyTokens(const std::vector<std::string>& more)
    : end_id(static_cast<std::int32_t>(256 + more.size())),
      open_id(end_id + 1),
      tokenizer(make_tokenizer(more)) {}

std::int32_t TinyTokens::id(std::string_view bytes) const {
  const auto id = tokenizer.token_id(to_byte_level(bytes));
  return id.value_or(-1);
}

TinyCompiler::TinyCompiler(const std::vector<std::string>& more,
                           const GrammarCompilerOptions& options)
    : tokens(more),
      compiler(tokens.tokenizer, {.rows = tokens.tokenizer.vocab_size() + kPaddingRows}, options) {}

CompiledGrammarPtr TinyCompiler::ready(const Grammar& grammar) {
  auto result = compiler.compile(grammar);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  if (!result.ok()) throw result.error();
  return *result;
}

std::string TinyCompiler::refusal(const Grammar& grammar) {
  const auto result = compiler.compile(grammar);
  if (result.ok()) return {};
  EXPECT_EQ(result.error().code(), ErrorCode::kRequest) << result.error().message();
  return result.error().message();
}

namespace {

bool follow(const TinyCompiler& tiny, GrammarMatcher& matcher, std::string_view text) {
  for (const char byte : text)
    if (!matcher.accept(tiny.tokens.id(std::string_view(&byte, 1)))) return false;
  return true;
}

}  // namespace

bool accepts(const TinyCompiler& tiny, const CompiledGrammarPtr& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  return follow(tiny, matcher, text) && matcher.accept(tiny.tokens.end_id);
}

bool begins(const TinyCompiler& tiny, const CompiledGrammarPtr& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  return follow(tiny, matcher, text);
}

std::vector<std::uint32_t> mask_of(GrammarMatcher& matcher) {
  std::vector<std::uint32_t> mask(matcher.mask_words());
  matcher.fill_mask(mask);
  return mask;
}

std::vector<std::int32_t> allowed_ids(GrammarMatcher& matcher) {
  const auto mask = mask_of(matcher);
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(mask.size() * 32); ++id)
    if (is_allowed(mask, id)) ids.push_back(id);
  return ids;
}

}  // namespace ingot
