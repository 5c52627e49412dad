#pragma once

#include "base/json.h"
#include "text/pieces.h"

#include <memory>
#include <vector>

namespace ingot {

// Memory that stages share during one call.
struct SplitScratch {
  RegexScratch regex;
  std::vector<Segment> segments;
  Pieces next;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts every piece further; may rewrite the text.
  virtual void apply(Pieces& pieces, SplitScratch& scratch) const = 0;
};

struct PreTokenizerChain {
  std::vector<std::unique_ptr<PreTokenizer>> stages;  // Sequences flattened
  // The last stage maps bytes to GPT-2's alphabet; left to the model, which knows bytes.
  bool byte_level_last = false;

  void apply(Pieces& pieces, SplitScratch& scratch) const {
    for (const auto& stage : stages) stage->apply(pieces, scratch);
  }
};

// `json`: the pre_tokenizer of tokenizer.json or null. With keep_bytes a ByteLevel that comes last
// leaves the bytes as they are and byte_level_last says so. Throws Error{kBadInput} naming what is
// not supported.
PreTokenizerChain make_pre_tokenizer(const Json& json, bool keep_bytes);

}  // namespace ingot
