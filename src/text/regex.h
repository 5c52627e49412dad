#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ingot {

struct Span {
  std::size_t begin, end;  // bytes
};

// Per-call memory of matching; belongs to one thread at a time.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// A pattern of tokenizer.json (Oniguruma's Ruby syntax), run by PCRE2 with JIT. Matching needs no
// machine stack, whatever the text.
class Regex {
 public:
  // Throws Error{kBadInput} for a pattern that is wrong or means something else in PCRE2.
  explicit Regex(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // The first match at or behind `from`; `text` is UTF-8. Throws Error{kRequest} when the pattern
  // backtracks without end.
  std::optional<Span> find(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// The pattern in PCRE2's syntax. Throws Error{kBadInput} for constructs without a counterpart.
std::string to_pcre2(std::string_view pattern);

}  // namespace ingot
