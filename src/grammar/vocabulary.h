#pragma once

#include "grammar/mask_machine.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

struct GrammarVocabularyOptions {
  int rows = 0;                       // of the model's logits; 0: as many as the tokenizer has ids
  std::vector<std::int32_t> end_ids;  // besides the tokenizer's own
};

namespace grammar {

// The tokens of a model as the masks see them. Control tokens are never part of an answer's text:
// they have no bytes, and the end tokens are allowed where the text is whole.
class GrammarVocabulary {
 public:
  GrammarVocabulary(const Tokenizer& tokenizer, const GrammarVocabularyOptions& options);

  const TokenTable& tokens() const { return tokens_; }
  std::size_t words() const { return (static_cast<std::size_t>(tokens_.rows) + 31) / 32; }

  // Ids by falling length of a run of white space, for the bound on it in JSON.
  struct Run {
    std::int32_t id;
    int length;
  };
  std::span<const Run> leading() const { return leading_; }    // at the token's beginning
  std::span<const Run> interior() const { return interior_; }  // the longest behind it

 private:
  void find_runs();

  TokenTable tokens_;
  std::vector<Run> leading_, interior_;
};

inline bool is_json_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace grammar
}  // namespace ingot
