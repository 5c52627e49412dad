#pragma once

#include "grammar/compiled_grammar.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot {

// Follows one sequence through a compiled grammar: what may come next, token by token. Not
// thread-safe; one a sequence, copied where a beam forks.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar);

  // 32-bit words of a mask.
  std::size_t mask_words() const { return mask_words(*grammar_); }
  static std::size_t mask_words(const CompiledGrammar& grammar) {
    return grammar.vocabulary().words();
  }
  // Bit id % 32 of word id / 32 says whether token `id` may come next. `words` holds mask_words().
  // Returns whether any may: none may behind an end token, where the vocabulary has no token for
  // what must follow, and when is_exhausted().
  bool fill_mask(std::span<std::uint32_t> words);
  // The same within a budget; nothing where it does not suffice, see MaskState::fill.
  std::optional<bool> fill_mask(std::span<std::uint32_t> words, grammar::MaskBudget& budget);
  // Takes the token; false, and nothing changes, if it must not come here.
  bool accept(std::int32_t token);
  // As if the last `tokens` accepted ones had never come.
  void rollback(int tokens);

  int accepted() const { return static_cast<int>(lexers_.size()) - 1; }
  // The text so far is whole: an end token may come, perhaps also more text.
  bool is_complete() const { return state_.is_complete(); }
  // The grammar can match the text in so many ways that following it takes too long.
  bool is_exhausted() const { return state_.is_exhausted(); }
  // See MaskState.
  double take_seconds() { return state_.take_seconds(); }
  // An end token was accepted.
  bool is_terminated() const { return state_.is_ended(); }
  // The text that must come next, whatever is drawn; may be empty. Its tokens are the caller's to
  // choose.
  std::string jump_forward() { return state_.forced_text(); }

 private:
  // Enough of JSON to see white space between tokens.
  struct Lexer {
    bool in_string = false;
    bool escaped = false;
    int blanks = 0;
  };
  // False where more blanks follow each other than the grammar wants.
  bool read(Lexer& lexer, std::string_view bytes) const;
  void forbid_blanks(std::span<std::uint32_t> words) const;

  std::shared_ptr<const CompiledGrammar> grammar_;
  grammar::MaskState state_;
  std::vector<Lexer> lexers_{Lexer{}};  // one more than the tokens accepted
};

}  // namespace ingot
