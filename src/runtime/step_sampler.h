#pragma once

#include "runtime/logprobs.h"
#include "runtime/request_record.h"
#include "runtime/sampler.h"
#include "runtime/scheduler.h"
#include "text/tokenizer.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot {

// A token that was drawn, or why none could be.
struct DrawnToken {
  std::int32_t token = -1;
  TokenLogprob logprob;  // where the request asks for it
  std::string error;     // with ErrorCode::kRequest
};

// Makes tokens of the logits of a step, while the device still computes the rest of them.
class StepSampler {
 public:
  // `tokenizer` may be null, and outlives this.
  explicit StepSampler(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}
  // What steps want at most.
  struct Sizes {
    std::size_t sequences = 0;
    std::size_t drawn = 0;    // tokens
    std::size_t longest = 0;  // tokens of a sequence
    std::size_t vocab = 0;
  };
  // Nothing is allocated for such steps, but what logprobs hold.
  void reserve(const Sizes& sizes);

  // `masks_follow`: give_masks() says when the masks of grammars are there.
  void begin(const ScheduledStep& step, bool masks_follow);
  void give_masks();
  // Logits [count, vocab] of the step's rows from `first` on; rows come in order.
  void take(std::int64_t first, std::int64_t count, std::span<const float> logits);
  void end();

  // Beam searches go on by themselves, in their records: nothing is drawn for them. Of others:
  // tokens drawn for an entry of the step, in order: none while its prompt is read, one, or with
  // drafts all that hold and one more. The first of a request with several answers: one for each.
  std::span<DrawnToken> drawn(std::size_t entry);

 private:
  void take_row(const ScheduledStep::Row& row, std::span<const float> logits);
  void draw(const ScheduledStep::Row& row, std::span<const float> logits, std::uint64_t seed);
  void take_beam(const ScheduledStep::Row& row, std::span<const float> logits);
  void advance_beams(const SequenceGroup& group);
  DrawContext context_of(const ScheduledStep::Row& row, const SamplingState& state);
  void leave_sequence();
  static std::span<const std::int32_t> forbidden(const RequestRecord& record, std::size_t position);
  DrawnToken& next_token();

  const Tokenizer* tokenizer_;
  Sampler sampler_;
  Logprobs logprobs_;
  const ScheduledStep* step_ = nullptr;
  std::vector<DrawnToken> tokens_;  // of all entries; used up to used_
  std::size_t used_ = 0;
  std::vector<std::size_t> first_of_entry_;  // in tokens_, one more than entries at the end
  std::size_t entry_ = 0;                    // whose rows come now
  std::size_t pushed_ = 0;                   // drafts that its state has seen
  bool holds_ = true;                        // every draft so far was what was drawn
  std::vector<std::int32_t> with_drafts_;
  std::atomic<bool> has_masks_{true};
};

}  // namespace ingot
