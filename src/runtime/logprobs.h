#pragma once

#include "ingot/request.h"
#include "runtime/candidates.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// What is told of a token that cannot be (its logit is -infinity): JSON has no infinity. As the
// OpenAI API writes it.
inline constexpr float kLeastLogprob = -9999.0f;

// Log-probabilities of the raw softmax: of what the model says, before any sampling parameter. For
// tokens of an answer and of a prompt alike. Keeps scratch; one per thread.
class Logprobs {
 public:
  // Nothing is allocated for rows of up to `vocab`, but what a result holds.
  void reserve(std::size_t vocab) { reserve_top(vocab, top_); }

  // Of `token` and of the `top` likeliest, best first, the lowest id of equals. Always finite, at
  // least kLeastLogprob. O(vocab + top log top). Throws Error{kRequest} when the logits hold NaN or
  // +infinity, or only -infinity.
  void read(std::span<const float> logits, std::int32_t token, std::int32_t top,
            TokenLogprob& result);
  TokenLogprob of(std::span<const float> logits, std::int32_t token, std::int32_t top) {
    TokenLogprob result;
    read(logits, token, top, result);
    return result;
  }

 private:
  std::vector<Candidate> top_;
};

}  // namespace ingot
