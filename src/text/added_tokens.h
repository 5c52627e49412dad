#pragma once

#include "text/image.h"
#include "text/prompt_span.h"
#include "text/trie.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace ingot {

// Finds added tokens in a text: leftmost, of those the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  // `trie`: kAddedTrie or kNormalizedTrie.
  AddedTokens(const ImageView& image, Section trie);

  bool empty() const { return trie_.empty(); }

  // Calls token(id) and text(part, offset) in the order of the text. Without `parse_special`
  // special tokens stay text; so do those that overlap a part of `foreign` (sorted).
  struct Sink {
    std::function<void(std::int32_t)> token;
    std::function<void(std::string_view, std::size_t)> text;
  };
  void split(std::string_view text, bool parse_special, std::span<const PromptSpan> foreign,
             const Sink& sink) const;

 private:
  struct Match {
    std::size_t begin, end;
    AddedRecord record;
  };
  // Next match at or behind `from`.
  bool find(std::string_view text, std::size_t from, Match& match) const;

  Trie trie_;
  std::span<const AddedRecord> records_;
  std::array<bool, 256> starts_{};
};

}  // namespace ingot
