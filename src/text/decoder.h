#pragma once

#include "base/json.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// One step of decoding, as a stream. Input is a list of tokens, each in any number of fragments
// followed by end_token; after the last token comes finish. Output goes to the next stage likewise.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  virtual void fragment(std::string_view text) = 0;
  virtual void end_token() = 0;
  // Hands on what was held back, passes finish on and returns to the first state.
  virtual void finish() = 0;

  void set_next(DecoderStage* next) { next_ = next; }

 protected:
  DecoderStage* next_ = nullptr;
};

// The decoder of tokenizer.json with its state. Both decode() and TokenStream run on it, so they
// cannot differ.
class DecoderChain {
 public:
  DecoderChain(DecoderChain&&) noexcept;
  DecoderChain& operator=(DecoderChain&&) noexcept;
  ~DecoderChain();

  // `json`: the decoder of tokenizer.json; null joins tokens with blanks. `clean_up`: the rules of
  // clean_up_tokenization_spaces on the whole text. Throws Error{kBadInput} naming what is not
  // supported.
  static DecoderChain make(const Json& json, bool clean_up);

  void push(std::string_view token);
  void finish();
  // What has come out since the last call.
  std::string take();

 private:
  DecoderChain();
  struct Sink;
  std::unique_ptr<Sink> sink_;
  std::vector<std::unique_ptr<DecoderStage>> stages_;
};

}  // namespace ingot
