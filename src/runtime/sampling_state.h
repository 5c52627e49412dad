#pragma once

#include "ingot/sampling_params.h"
#include "runtime/ngram_index.h"
#include "runtime/token_counts.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ingot {

// What the parameters of one sequence make of its tokens: counts for penalties, runs that may not
// repeat, a top_p that decays. It follows the sequence token by token, so a draw never looks back
// over it, and what no parameter asks for is not kept. Copied when a beam forks.
class SamplingState {
 public:
  // Of a sequence that is its prompt so far.
  SamplingState(const SamplingParams& params, std::span<const std::int32_t> prompt);

  // Nothing is allocated until the sequence has more than `tokens` tokens, of a vocabulary of
  // `vocab`. A copy keeps nothing of that.
  void reserve(std::size_t tokens, std::size_t vocab);

  // A token of the answer, or a draft of one that later draws are to see.
  void push(std::int32_t token);
  // Takes back the last `count` tokens, as if they had never come.
  void pop(std::size_t count);

  std::size_t generated() const { return generated_; }
  // Tokens that penalties count; empty where there are none.
  std::span<const TokenCounts::Entry> counts() const { return counts_.entries(); }
  // For the next draw.
  double top_p() const { return decayed_.empty() ? top_p_ : decayed_.back(); }
  // Makes -infinity of the scores, [vocab], of what may not come next: repeats of a run, and the
  // ends of bad words whose other tokens are there.
  void ban_next(std::span<float> scores) const;

 private:
  bool keeps_tokens() const { return runs_.has_value() || longest_bad_word_ > 1 || counts_answer_; }

  double top_p_;
  double top_p_decay_;
  double top_p_min_;
  std::int32_t top_p_reset_id_;
  bool counts_answer_;
  std::size_t longest_bad_word_ = 0;
  std::vector<std::vector<std::int32_t>> bad_words_;

  std::size_t generated_ = 0;
  std::vector<std::int32_t> tokens_;  // the last ones or all, as far as anything above wants them
  TokenCounts counts_;
  std::optional<NgramIndex> runs_;
  std::vector<double> decayed_;  // after each token of the answer, where top_p decays
};

}  // namespace ingot
