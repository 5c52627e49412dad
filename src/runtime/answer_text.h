#pragma once

#include "text/detokenizer.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

// An answer's text as it grows: whole characters, and nothing that may still turn out to be the
// start of a stop string.
class AnswerText {
 public:
  // `tokenizer` may be null (no text then) and outlives this.
  // `include_stop`: the stop string that ends the text is part of it; of those that begin at the
  // same place the shortest, which was whole first.
  AnswerText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool include_stop = false);

  // Text that is certain after this token. Once stopped() nothing more comes. Text of tokens that
  // may not end the answer begins no stop string.
  std::string push(std::int32_t id, bool may_end = true);
  // What was held back; at the end of the answer without a stop string.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::string fresh);

  std::optional<TokenStream> stream_;
  std::vector<std::string> stop_;
  bool include_stop_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace ingot
