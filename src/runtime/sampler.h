#pragma once

#include "ingot/logits_callback.h"
#include "ingot/sampling_params.h"
#include "runtime/candidates.h"
#include "runtime/logit_row.h"
#include "runtime/sampling_state.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// What a draw depends on besides logits and parameters.
struct DrawContext {
  const SamplingState& state;  // of these parameters, after every token before the drawn one
  std::uint64_t seed = 0;
  std::uint64_t position = 0;                   // of the drawn token: as many are before it
  std::span<const std::int32_t> forbidden{};    // end tokens before min_tokens
  std::span<const std::uint32_t> token_mask{};  // a grammar's: bit i % 32 of word i / 32 allows
                                                // token i; tokens past its end are not allowed.
                                                // Empty: no grammar
  const LogitsCallback* callback = nullptr;     // of the user
  std::span<const std::int32_t> tokens{};       // for the callback: prompt and answer so far
  std::size_t prompt_tokens = 0;                // for the callback
};

// Draws one token. In this order:
//
//   1. callback            changes the raw logits
//   2. logit_bias          is added
//   3. penalties           repetition, then presence and frequency
//   4. bans                forbidden, bad words, repeated n-grams, token_mask
//   5. temperature         below 1e-5 the largest logit is taken, the lowest id of equals, and
//                          nothing below matters
//   6. top_k               of equals the lower ids stay, here and below
//   7. top_p               of the mass that top_k left; decayed as the state says
//   8. min_p               against the likeliest
//   9. typical_p           of what is left
//  10. draw                the inverse of the distribution function, in the order of ids, at a
//                          number that depends on seed and position only
//
// So a draw is a function of logits, parameters and context, and it does not matter what else
// runs. It costs O(vocab). Keeps scratch; one per thread.
class Sampler {
 public:
  // Nothing is allocated for rows of up to `vocab`.
  void reserve(std::size_t vocab);

  // Parameters are in range (check_sampling). Throws Error{kRequest}, which ends the request while
  // others go on, when the logits hold NaN or +infinity, when the callback throws or makes such,
  // and when no token is allowed.
  std::int32_t draw(std::span<const float> logits, const SamplingParams& params,
                    const DrawContext& context);

  // Stages 1 to 4 on `scores`, [vocab]: logits, or the log-probabilities of a beam. Throws as
  // draw() does.
  void apply(std::span<float> scores, const SamplingParams& params, const DrawContext& context);

 private:
  std::int32_t pick(std::span<const float> row, float largest, const SamplingParams& params,
                    const DrawContext& context);
  std::int32_t pick_from_all(std::span<const float> row, const Weigher& weigh, double u);
  double gather(std::span<const float> row, const Weigher& weigh, const SamplingParams& params,
                double top_p);

  std::vector<float> logits_;  // changed ones
  std::vector<double> blocks_;
  std::vector<Candidate> top_;
  CandidateSet candidates_;
};

// Throws Error{kRequest}: no token is left to draw or to search on with.
[[noreturn]] void fail_where_none_is_allowed();

// Uniform in [0, 1) from seed and position: a counter-based generator, the same on every device.
double uniform_at(std::uint64_t seed, std::uint64_t position);

// The seed of answer `index` of several to one prompt: the request's own for the first.
std::uint64_t seed_of_answer(std::uint64_t seed, std::uint64_t index);

}  // namespace ingot
