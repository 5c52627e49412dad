#include "runtime/step_sampler.h"

#include "base/check.h"
#include "base/error.h"
#include "runtime/logit_row.h"

#include <algorithm>
#include <utility>

namespace ingot {

namespace {

AnswerRecord& answer_of(const ScheduledStep::Row& row) {
  return *row.group->record->answers[static_cast<std::size_t>(row.sequence->index)];
}

// A mask allows nothing for other reasons too; this one is the grammar's own.
void refuse_exhausted(const GrammarMatcher& matcher, std::span<const std::uint32_t> mask) {
  if (matcher.is_exhausted() && std::ranges::all_of(mask, [](auto word) { return word == 0; }))
    fail(ErrorCode::kRequest,
         "[guided.work] the grammar can match the text so far in so many ways that following it "
         "takes too long; the answer ends here");
}

}  // namespace

void StepSampler::reserve(const Sizes& sizes) {
  tokens_.resize(sizes.drawn);
  first_of_entry_.reserve(sizes.sequences + 1);
  with_drafts_.reserve(sizes.longest);
  sampler_.reserve(sizes.vocab);
  logprobs_.reserve(sizes.vocab);
}

void StepSampler::begin(const ScheduledStep& step, bool masks_follow) {
  step_ = &step;
  has_masks_ = !masks_follow;
  used_ = entry_ = pushed_ = 0;
  holds_ = true;
  first_of_entry_.assign(1, 0);
}

void StepSampler::give_masks() {
  has_masks_ = true;
  has_masks_.notify_one();
}

DrawnToken& StepSampler::next_token() {
  if (used_ == tokens_.size()) tokens_.emplace_back();
  DrawnToken& token = tokens_[used_++];
  token.error.clear();
  token.logprob.top.clear();
  return token;
}

void StepSampler::take(std::int64_t first, std::int64_t count, std::span<const float> logits) {
  const std::size_t vocab = logits.size() / static_cast<std::size_t>(count);
  for (std::int64_t r = 0; r < count; ++r) {
    const ScheduledStep::Row& row = step_->rows[static_cast<std::size_t>(first + r)];
    while (step_->entries[entry_].sequence != row.sequence) leave_sequence();
    take_row(row, logits.subspan(static_cast<std::size_t>(r) * vocab, vocab));
  }
}

void StepSampler::end() {
  while (entry_ < step_->entries.size()) leave_sequence();
}

// The state is again what the accepted tokens made of it.
void StepSampler::leave_sequence() {
  const ScheduledStep::Entry& entry = step_->entries[entry_];
  if (pushed_ > 0) answer_of({entry.group, entry.sequence, 0}).state.pop(std::exchange(pushed_, 0));
  holds_ = true;
  first_of_entry_.push_back(used_);
  ++entry_;
}

std::span<DrawnToken> StepSampler::drawn(std::size_t entry) {
  return std::span(tokens_).subspan(first_of_entry_[entry],
                                    first_of_entry_[entry + 1] - first_of_entry_[entry]);
}

void StepSampler::take_row(const ScheduledStep::Row& row, std::span<const float> logits) {
  RequestRecord& record = *row.group->record;
  const Sequence& s = *row.sequence;
  if (row.position + 1 < s.tokens.size()) {  // what follows is in the prompt
    // By position: a prompt that was paused is read again.
    auto& all = record.prompt_logprobs;
    all.resize(std::max(all.size(), row.position + 1));
    all[row.position] =
        logprobs_.of(logits, s.tokens[row.position + 1], record.sampling.prompt_logprobs);
    return;
  }
  if (record.grammar) has_masks_.wait(false);
  if (record.unmasked) return;
  if (record.beams) return take_beam(row, logits);
  if (!holds_) return;
  const bool parts = row.group->width > 1 && row.group->members.size() == 1;
  const std::int32_t answers = parts ? row.group->width : 1;
  for (std::int32_t i = 0; i < answers; ++i)
    draw(row, logits, parts ? seed_of_answer(record.seed, static_cast<std::uint64_t>(i)) : s.seed);
  const std::size_t draft = row.position + 1 - s.tokens.size();
  const DrawnToken& token = tokens_[used_ - 1];
  holds_ = draft < s.drafts.size() && token.error.empty() && token.token == s.drafts[draft];
  if (!holds_) return;
  answer_of(row).state.push(token.token);
  ++pushed_;
}

void StepSampler::draw(const ScheduledStep::Row& row, std::span<const float> logits,
                       std::uint64_t seed) {
  const RequestRecord& record = *row.group->record;
  const SamplingParams& p = record.sampling;
  DrawnToken& token = next_token();
  try {
    DrawContext context = context_of(row, answer_of(row).state);
    context.seed = seed;
    token.token = sampler_.draw(logits, p, context);
    if (p.logprobs >= 0 || record.compares)
      logprobs_.read(logits, token.token, p.logprobs, token.logprob);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kRequest) throw;
    token.error = e.message();
  }
}

DrawContext StepSampler::context_of(const ScheduledStep::Row& row, const SamplingState& state) {
  const RequestRecord& record = *row.group->record;
  const Sequence& s = *row.sequence;
  DrawContext context{.state = state,
                      .position = row.position + 1,
                      .forbidden = forbidden(record, row.position + 1),
                      .callback = &record.change_logits,
                      .tokens = s.tokens,
                      .prompt_tokens = record.prompt_tokens};
  if (record.grammar) {
    const auto& masks = record.beams ? record.beams->masks : answer_of(row).masks;
    const std::size_t words = GrammarMatcher::mask_words(*record.grammar);
    const std::size_t at =
        record.beams ? static_cast<std::size_t>(s.index) : row.position + 1 - s.tokens.size();
    context.token_mask = std::span(masks).subspan(at * words, words);
    const GrammarMatcher& matcher = record.beams
                                        ? record.beams->matchers[static_cast<std::size_t>(s.index)]
                                        : *answer_of(row).matcher;
    refuse_exhausted(matcher, context.token_mask);
  }
  if (row.position < s.tokens.size() || !record.change_logits) return context;
  // A draft that holds is a token like any other.
  with_drafts_ = s.tokens;
  const auto drafts = static_cast<std::ptrdiff_t>(row.position + 1 - s.tokens.size());
  with_drafts_.insert(with_drafts_.end(), s.drafts.begin(), s.drafts.begin() + drafts);
  context.tokens = with_drafts_;
  return context;
}

// A beam's log-probabilities join those of the others; the last takes the search a step on.
void StepSampler::take_beam(const ScheduledStep::Row& row, std::span<const float> logits) {
  RequestRecord& record = *row.group->record;
  BeamRecord& beams = *record.beams;
  const auto index = static_cast<std::size_t>(row.sequence->index);
  const std::size_t live = row.group->members.size();
  beams.scores.resize(live * logits.size());
  const auto scores = std::span(beams.scores).subspan(index * logits.size(), logits.size());
  if (record.sampling.logprobs >= 0) {
    beams.logits.resize(live * logits.size());
    std::ranges::copy(logits,
                      beams.logits.begin() + static_cast<std::ptrdiff_t>(index * logits.size()));
  }
  try {
    if (!peak_of(logits).is_sound)
      fail(ErrorCode::kRequest,
           "[sampler] the model's logits are not numbers; the answer ends here");
    log_softmax(logits, scores);
    sampler_.apply(scores, record.sampling, context_of(row, beams.states[index]));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kRequest) throw;
    beams.error = e.message();
  }
  if (++beams.rows == live) advance_beams(*row.group);
}

void StepSampler::advance_beams(const SequenceGroup& group) {
  const RequestRecord& record = *group.record;
  BeamRecord& beams = *record.beams;
  const SamplingParams& p = record.sampling;
  beams.rows = 0;
  beams.advanced = true;
  if (!beams.error.empty()) return;
  BeamSearch::Stops stops;
  if (!p.stop.empty() && tokenizer_)
    stops = [&](const BeamStep& step) {
      const auto& tokens = group.members[static_cast<std::size_t>(step.parent)]->tokens;
      AnswerText text(tokenizer_, p.stop);
      auto count = static_cast<std::int32_t>(0);
      for (std::size_t i = record.prompt_tokens; i < tokens.size(); ++i)
        text.push(tokens[i], ++count >= p.min_tokens);
      text.push(step.token, ++count >= p.min_tokens);
      return text.stopped();
    };
  try {
    beams.steps = beams.search.advance(beams.scores, stops);
    if (beams.search.live() == 0 && beams.search.best(1).empty()) fail_where_none_is_allowed();
    if (p.logprobs < 0) return;
    const std::size_t vocab = beams.logits.size() / group.members.size();
    for (const BeamStep& step : beams.search.taken()) {
      const std::size_t row = static_cast<std::size_t>(step.parent) * vocab;
      beams.logprobs.push_back(
          logprobs_.of(std::span(beams.logits).subspan(row, vocab), step.token, p.logprobs));
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kRequest) throw;
    beams.error = e.message();
  }
}

// Whatever would end the answer, before it may end.
std::span<const std::int32_t> StepSampler::forbidden(const RequestRecord& record,
                                                     std::size_t position) {
  const auto generated = static_cast<std::int64_t>(position - record.prompt_tokens);
  if (generated >= record.sampling.min_tokens) return {};
  return record.end_ids;
}

}  // namespace ingot
