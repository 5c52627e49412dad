#pragma once

#include "text/decoder.h"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

// Stages that must not wait for the end of a token, since behind Fuse the whole text is one token.
namespace ingot {

// Replaces every occurrence of a literal, leftmost first, within a token.
class ReplaceStage : public DecoderStage {
 public:
  ReplaceStage(std::string what, std::string with);
  void fragment(std::string_view text) override;
  void end_token() override;
  void finish() override { next_->finish(); }

 private:
  void put(char c);

  std::string what_, with_;
  std::vector<std::size_t> failure_;  // of Knuth, Morris and Pratt
  std::size_t matched_ = 0;           // bytes of what_ seen and held back
  std::string out_;
};

// Removes up to `start` leading and `stop` trailing copies of a character from each token.
class StripStage : public DecoderStage {
 public:
  StripStage(std::string content, int start, int stop);
  void fragment(std::string_view text) override;
  void end_token() override;
  void finish() override { next_->finish(); }

 private:
  void put(std::string_view character);

  std::string content_;
  int start_, stop_;
  bool leading_ = true;  // still before the first other character
  int removed_ = 0;      // leading copies removed from this token
  int held_ = 0;         // trailing copies held back, at most stop_
  std::string out_;
};

}  // namespace ingot
