#include "runtime/sampling_state.h"

#include "base/check.h"
#include "runtime/logit_row.h"

#include <algorithm>

namespace ingot {

SamplingState::SamplingState(const SamplingParams& p, std::span<const std::int32_t> prompt)
    : top_p_(p.top_p),
      top_p_decay_(p.top_p_decay),
      top_p_min_(p.top_p_min),
      top_p_reset_id_(p.top_p_reset_id),
      counts_answer_(p.repetition_penalty != 1.0 || p.presence_penalty != 0.0 ||
                     p.frequency_penalty != 0.0),
      bad_words_(p.bad_token_ids) {
  for (const auto& word : bad_words_) longest_bad_word_ = std::max(longest_bad_word_, word.size());
  if (p.repetition_penalty != 1.0)
    for (const std::int32_t id : prompt) counts_.add_prompt(id);
  if (p.no_repeat_ngram_size > 0) {
    runs_.emplace(static_cast<std::size_t>(p.no_repeat_ngram_size));
    tokens_.reserve(prompt.size());
    for (const std::int32_t id : prompt) {
      tokens_.push_back(id);
      runs_->push(tokens_);
    }
  } else if (longest_bad_word_ > 1) {
    const auto last = prompt.last(std::min(prompt.size(), longest_bad_word_ - 1));
    tokens_.assign(last.begin(), last.end());
  }
}

void SamplingState::reserve(std::size_t tokens, std::size_t vocab) {
  if (keeps_tokens()) tokens_.reserve(tokens);
  if (counts_answer_) counts_.reserve(std::min(tokens, vocab));
  if (runs_) runs_->reserve(tokens, tokens_);
  if (top_p_decay_ < 1.0) decayed_.reserve(tokens);
}

void SamplingState::push(std::int32_t token) {
  ++generated_;
  if (keeps_tokens()) tokens_.push_back(token);
  if (counts_answer_) counts_.push(token);
  if (runs_) runs_->push(tokens_);
  if (top_p_decay_ < 1.0)
    decayed_.push_back(token == top_p_reset_id_ ? top_p_
                                                : std::max(top_p() * top_p_decay_, top_p_min_));
}

void SamplingState::pop(std::size_t count) {
  check(count <= generated_, "more tokens are taken back than were pushed");
  generated_ -= count;
  if (top_p_decay_ < 1.0) decayed_.resize(generated_);
  if (!keeps_tokens()) return;
  for (; count > 0; --count) {
    if (counts_answer_) counts_.pop(tokens_.back());
    if (runs_) runs_->pop(tokens_);
    tokens_.pop_back();
  }
}

void SamplingState::ban_next(std::span<float> scores) const {
  for (const auto& word : bad_words_) {
    const auto start = std::span(word).first(word.size() - 1);
    if (start.size() <= tokens_.size() &&
        std::ranges::equal(start, std::span(tokens_).last(start.size())))
      ban(word.back(), scores);
  }
  if (runs_) runs_->ban_repeats(tokens_, scores);
}

}  // namespace ingot
