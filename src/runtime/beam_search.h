#pragma once

#include "ingot/sampling_params.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ingot {

struct BeamOptions {
  std::int32_t width = 1;  // 1 or more
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kHeuristic;
  double diversity_rate = 0.0;
  std::vector<std::int32_t> end_ids{};  // any of them ends a hypothesis
  std::size_t max_tokens = 1;           // of an answer, 1 or more; a beam that long is a hypothesis
};

// One way on: what was beam `parent` goes on with `token`.
struct BeamStep {
  std::int32_t parent;  // index among the beams of the step before
  std::int32_t token;
  float score;  // log-probability of the whole, with the diversity that it gained
};

enum class BeamEnd : std::uint8_t { kEndToken, kStopped, kLength };

struct BeamHypothesis {
  std::vector<std::int32_t> tokens;  // of the answer, the end token included
  std::vector<std::size_t> steps;    // of each token: its place among all that were told as taken()
  float score;                       // over length^length_penalty
  BeamEnd end;
};

// A beam search over one prompt, as transformers' generate() does it (num_beams, length_penalty,
// early_stopping, eos_token_id; https://github.com/huggingface/transformers, 5.24), and
// beam_search_diversity_rate as TensorRT-LLM adds it: each candidate of beam i gains rate * i at
// every step, beams counted from the best. Knows no device and no cache: it says which beam goes on
// with which token. Where fewer tokens are possible than the search is wide (a grammar), it is
// narrower for so long.
class BeamSearch {
 public:
  explicit BeamSearch(BeamOptions options);

  // Whether a step, apart from its last token, ends its hypothesis: a stop string does.
  using Stops = std::function<bool(const BeamStep&)>;

  // Beams that want log-probabilities: 1 at first, 0 when the search is over.
  std::size_t live() const { return beams_.size(); }
  // `log_probs`, [live, vocab]: of the next token of each beam, banned ones at -infinity. Gives the
  // beams of the next step, best first; valid until the next call. Throws Error{kRequest} when they
  // hold NaN or +infinity.
  std::span<const BeamStep> advance(std::span<const float> log_probs, const Stops& stops = {});
  // Every way on that the last call took, to an end or to a beam of the next step; parents are the
  // rows of its log_probs.
  std::span<const BeamStep> taken() const { return taken_; }

  // The best `count` hypotheses, best first, or as many as the search found: none where nothing was
  // allowed before anything had ended. It is over.
  std::vector<BeamHypothesis> best(std::size_t count) const;

 private:
  // The beams' tokens are a tree: a beam is one of its nodes.
  struct Node {
    std::int32_t parent;  // -1: the prompt
    std::int32_t token;
  };
  struct Beam {
    std::int32_t node;
    float score;
  };
  struct Finished {
    std::int32_t node;
    float score;
    BeamEnd end;
  };

  void expand(std::span<const float> log_probs);
  std::int32_t grow(const BeamStep& step);
  void finish(const BeamStep& step, BeamEnd end);
  bool can_improve(float best_score) const;
  double normalised(float score, std::size_t tokens) const;

  BeamOptions options_;
  std::size_t tokens_ = 0;  // that every live beam has
  std::vector<Node> nodes_;
  std::vector<Beam> beams_;         // best first
  std::vector<BeamStep> steps_;     // of beams_
  std::vector<BeamStep> expanded_;  // candidates, best first
  std::vector<BeamStep> taken_;     // by the last step; the newest nodes, in order
  std::vector<Beam> next_;
  std::vector<Finished> finished_;  // best first, at most `width`
};

}  // namespace ingot
