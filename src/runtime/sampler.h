#pragma once

#include "ingot/request.h"
#include "ingot/sampling_params.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot {

// What a draw depends on besides logits and parameters.
struct DrawContext {
  std::span<const std::int32_t> tokens;  // prompt and answer so far
  std::size_t prompt_tokens = 0;
  std::uint64_t seed = 0;
  std::span<const std::int32_t> forbidden;  // end tokens before min_tokens
};

// Draws one token. Parameters are in range (check_sampling). One draw depends on seed and position
// (tokens.size()) only, so it does not matter what else runs. Keeps scratch between calls; one per
// thread.
class Sampler {
 public:
  // Throws Error{kRequest} when the logits hold a NaN: the request ends, others go on.
  std::int32_t draw(std::span<const float> logits, const SamplingParams& params,
                    const DrawContext& context);

  // Log-probability of `token` and the `top` likeliest, from the raw softmax.
  static TokenLogprob logprob(std::span<const float> logits, std::int32_t token, std::int32_t top);

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
  };
  void penalise(const SamplingParams& params, const DrawContext& context);
  std::int32_t pick(const SamplingParams& params, const DrawContext& context);

  std::vector<float> logits_;
  std::vector<Candidate> candidates_;
  std::vector<std::int32_t> counts_;  // by id: 1 and its times in the answer; 0 between draws
  std::vector<std::size_t> seen_;     // ids whose count is not 0
};

// "" or what is wrong, naming the field: "top_p 1.2: wanted (0, 1]".
std::string check_sampling(const SamplingParams& params, std::int64_t vocab);

// Uniform in [0, 1) from seed and position: a counter-based generator, the same on every device.
double uniform_at(std::uint64_t seed, std::uint64_t position);

}  // namespace ingot
