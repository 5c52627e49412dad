#pragma once

#include "grammar/matcher.h"
#include "ingot/request.h"
#include "runtime/beam_search.h"
#include "runtime/sampling_state.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot {

// The beam search of a request: its beams are the members of its group, in order.
struct BeamRecord {
  explicit BeamRecord(BeamOptions options) : search(std::move(options)) {}

  BeamSearch search;
  std::vector<SamplingState> states;     // by beam
  std::vector<GrammarMatcher> matchers;  // by beam, where there is a grammar
  std::vector<std::uint32_t> masks;      // [beams, words] of the step under way
  std::vector<float> scores;             // [beams, vocab], as far as a step has come
  std::vector<float> logits;  // likewise, as the model gave them, where logprobs are wanted
  std::vector<TokenLogprob> logprobs;  // of every step that the search took
  std::size_t rows = 0;                // of scores that are there
  std::span<const BeamStep> steps;     // of the beams to come
  bool advanced = false;               // by the last step, which is not accepted yet
  std::string error;                   // with ErrorCode::kRequest: why it cannot go on
};

}  // namespace ingot
