#pragma once

#include "text/tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>

namespace ingot {

class DecoderChain;

// Turns ids into text one at a time. Joined output of push() and finish() equals decode() of all
// ids; every piece is valid UTF-8; the cost of a token does not depend on how many came before.
// The Tokenizer must outlive it.
class TokenStream {
 public:
  explicit TokenStream(const Tokenizer& tokenizer, const DecodeOptions& options = {});
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  ~TokenStream();

  // The text that is certain after this id; may be empty.
  std::string push(std::int32_t id);
  // The rest. Afterwards the stream is at its start again.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  std::unique_ptr<DecoderChain> chain_;
};

}  // namespace ingot
