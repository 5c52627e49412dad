#include "grammar/matcher.h"

#include "base/check.h"

#include <algorithm>
#include <limits>

namespace ingot {

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
    : grammar_(std::move(grammar)), state_(grammar_->machine()) {}

bool GrammarMatcher::read(Lexer& lexer, std::string_view bytes) const {
  for (const char c : bytes) {
    if (lexer.in_string) {
      if (lexer.escaped) {
        lexer.escaped = false;
      } else if (c == '\\') {
        lexer.escaped = true;
      } else if (c == '"') {
        lexer.in_string = false;
      }
    } else if (grammar::is_json_blank(c)) {
      if (++lexer.blanks > grammar_->max_whitespace()) return false;
    } else {
      lexer.blanks = 0;
      lexer.in_string = c == '"';
    }
  }
  return true;
}

void GrammarMatcher::forbid_blanks(std::span<std::uint32_t> words) const {
  const auto& vocabulary = grammar_->vocabulary();
  const auto forbid = [&](std::int32_t id) {
    words[static_cast<std::size_t>(id) / 32] &= ~(1u << (id % 32));
  };
  const Lexer& now = lexers_.back();
  const int limit = grammar_->max_whitespace();
  if (!now.in_string) {
    for (const auto& run : vocabulary.leading()) {
      if (run.length <= limit - now.blanks) break;
      forbid(run.id);
    }
  }
  for (const auto& run : vocabulary.interior()) {
    if (run.length <= limit) break;
    Lexer lexer = now;
    if (!read(lexer, vocabulary.tokens().bytes[static_cast<std::size_t>(run.id)])) forbid(run.id);
  }
}

bool GrammarMatcher::fill_mask(std::span<std::uint32_t> words) {
  grammar::MaskBudget forever{.seconds = std::numeric_limits<double>::infinity()};
  return fill_mask(words, forever).value();
}

std::optional<bool> GrammarMatcher::fill_mask(std::span<std::uint32_t> words,
                                              grammar::MaskBudget& budget) {
  check(words.size() == mask_words(), "a mask has one bit for each row of the vocabulary");
  if (!state_.fill(words, budget)) return std::nullopt;
  if (grammar_->bounds_whitespace()) forbid_blanks(words);
  return std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; });
}

bool GrammarMatcher::accept(std::int32_t token) {
  const auto& bytes = grammar_->vocabulary().tokens().bytes;
  Lexer lexer = lexers_.back();
  if (grammar_->bounds_whitespace() && token >= 0 &&
      static_cast<std::size_t>(token) < bytes.size() &&
      !read(lexer, bytes[static_cast<std::size_t>(token)]))
    return false;
  if (!state_.accept(token)) return false;
  lexers_.push_back(lexer);
  return true;
}

void GrammarMatcher::rollback(int tokens) {
  check(tokens >= 0 && tokens <= accepted(), "rollback of more tokens than were accepted");
  if (tokens == 0) return;
  state_.rollback(tokens);
  lexers_.resize(lexers_.size() - static_cast<std::size_t>(tokens));
}

}  // namespace ingot
