#pragma once

#include "base/json.h"
#include "text/regex.h"

#include <memory>
#include <string>
#include <string_view>

namespace ingot {

// Text while it is normalised.
struct NormalizedText {
  std::string text;
  bool first = false;  // its first character is the original text's first
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text, RegexScratch& scratch) const = 0;
};

// `json`: the normalizer of tokenizer.json; null gives nullptr. A Precompiled one takes its map
// from `charsmap`, which outlives it. Throws Error{kBadInput} naming what is not supported.
std::unique_ptr<Normalizer> make_normalizer(const Json& json, std::string_view charsmap);

// precompiled.cpp: SentencePiece's character map.
std::unique_ptr<Normalizer> make_precompiled(std::string_view charsmap);
// sentencepiece_normalizer.cpp.
std::unique_ptr<Normalizer> make_sentencepiece_normalizer(const Json& json,
                                                          std::string_view charsmap);

}  // namespace ingot
