#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

// How the next token is drawn. Order: repetition, presence and frequency penalties on the raw
// logits, temperature, top-k, top-p, min-p, then one draw. A temperature below 1e-5 takes the
// largest logit, the lowest id where two are equal.
struct SamplingParams {
  double temperature = 1.0;  // >= 0
  std::int32_t top_k = 0;    // 0: all
  double top_p = 1.0;        // (0, 1]: smallest set whose probabilities reach it
  double min_p = 0.0;        // [0, 1]: drop what is less likely than min_p times the likeliest
  // > 0: divides positive and multiplies negative logits of tokens in prompt and answer.
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;   // subtracted once from tokens of the answer
  double frequency_penalty = 0.0;  // subtracted for each time a token is in the answer
  // Random when absent; a draw depends on the seed and the position only.
  std::optional<std::uint64_t> seed;

  std::int32_t max_tokens = 0;  // of the answer; 0: as many as fit
  std::int32_t min_tokens = 0;  // no end before so many
  bool ignore_eos = false;
  std::vector<std::string> stop;             // text that ends the answer and is not part of it
  std::vector<std::int32_t> stop_token_ids;  // besides the model's own
  // Likeliest tokens reported at each position, from the raw softmax; -1: none.
  std::int32_t logprobs = -1;
};

}  // namespace ingot
