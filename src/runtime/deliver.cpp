// The end of a token's way: text, events, and what becomes of a request after its last.
#include "base/check.h"
#include "base/error.h"
#include "runtime/engine_loop.h"

#include <algorithm>
#include <utility>

namespace ingot {

namespace {

// What was told so far, and after it what `event` tells.
void append(OutputEvent&& event, OutputEvent& whole) {
  const auto join = [](auto& before, auto& more) {
    before.insert(before.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
    more = std::move(before);
  };
  join(whole.text, event.text);
  join(whole.tokens, event.tokens);
  join(whole.logprobs, event.logprobs);
  if (!whole.prompt_logprobs.empty()) event.prompt_logprobs = std::move(whole.prompt_logprobs);
  whole = std::move(event);
}

}  // namespace

OutputEvent EngineLoop::event_for(const RequestRecord& record, std::int32_t index) const {
  OutputEvent event{.id = record.id, .index = index, .seed = record.seed};
  event.usage = {.prompt_tokens = static_cast<std::int64_t>(record.prompt_tokens),
                 .cached_tokens = record.cached_tokens,
                 .drafted_tokens = record.drafted_tokens,
                 .accepted_drafts = record.accepted_drafts};
  return event;
}

RequestStatistics EngineLoop::statistics_of(const RequestRecord& record, double time) const {
  return {
      .queue_seconds = std::max(0.0, record.started - record.submitted),
      .first_token_seconds = std::max(0.0, record.first_token - record.submitted),
      .total_seconds = time - record.submitted,
      .token_gap_mean = record.gaps == 0 ? 0 : record.gap_sum / static_cast<double>(record.gaps),
      .token_gap_max = record.gap_max,
      .prompt_tokens = static_cast<std::int64_t>(record.prompt_tokens),
      .cached_tokens = record.cached_tokens,
      .generated_tokens = record.generated,
      .preemptions = record.preemptions,
      .pages = record.pages};
}

void EngineLoop::deliver() {
  if (delivering_) return;
  delivering_ = true;
  for (std::size_t i = 0; i < told_count_; ++i) deliver(told_[i]);
  told_count_ = 0;
  delivering_ = false;
  if (running_) return;
  end_by_text();
  closed_.clear();
}

void EngineLoop::deliver(Told& told) {
  RequestRecord& record = *told.record;
  AnswerRecord& answer = *record.answers[static_cast<std::size_t>(told.index)];
  if (answer.ended) return;
  if (record.beams && told.finish == FinishReason::kRunning) return give_beams(record);
  OutputEvent event = event_for(record, told.index);
  event.usage.completion_tokens = told.completion_tokens;
  event.finish = told.finish;
  if (told.finish == FinishReason::kError) {
    event.error = told.error;
    event.error_code = told.error_code;
  }
  if (told.token >= 0) {
    event.tokens.push_back(told.token);
    if (record.compares) answer.sum_of_logprobs += told.logprob.logprob;
    if (record.sampling.logprobs >= 0) event.logprobs.push_back(std::move(told.logprob));
    const bool end_token = told.finish == FinishReason::kStop;
    const bool may_end = told.completion_tokens >= record.sampling.min_tokens;
    if (!end_token) event.text = answer.text.push(told.token, may_end);
    if (told.finish != FinishReason::kRunning) event.text += answer.text.finish();
    if (answer.text.stopped()) {
      if (told.finish == FinishReason::kRunning) stopped_.emplace_back(record.id, told.index);
      event.finish = FinishReason::kStop;
    }
  }
  if (!record.told_prompt) event.prompt_logprobs = std::move(record.prompt_logprobs);
  record.told_prompt = true;
  give(record, std::move(event));
}

void EngineLoop::give(RequestRecord& record, OutputEvent&& event) {
  AnswerRecord& answer = *record.answers[static_cast<std::size_t>(event.index)];
  const bool ends = event.finish != FinishReason::kRunning;
  if (ends) {
    const double time = now();
    answer.ended = true;
    event.last = --record.open == 0;
    event.timing = {.started = std::max(0.0, record.started - record.submitted),
                    .first_token = std::max(0.0, record.first_token - record.submitted),
                    .total = time - record.submitted};
    if (event.last) event.statistics = statistics_of(record, time);
  }
  const bool last = event.last;
  if (record.compares) {
    append(std::move(event), answer.whole);
    if (last) give_best(record);
  } else {
    emit(std::move(event));
  }
  if (last) close(record);
}

// The n likeliest of best_of answers, by log-probability per token.
void EngineLoop::give_best(RequestRecord& record) {
  std::vector<AnswerRecord*> order;
  for (const auto& answer : record.answers) order.push_back(answer.get());
  const auto score = [](const AnswerRecord* answer) {
    if (answer->whole.finish == FinishReason::kError) return -1e30;
    return answer->sum_of_logprobs /
           std::max<double>(1, static_cast<double>(answer->whole.tokens.size()));
  };
  std::ranges::stable_sort(order, std::ranges::greater(), score);
  std::vector<TokenLogprob> prompt = std::move(record.answers[0]->whole.prompt_logprobs);
  const auto given = std::min(order.size(), static_cast<std::size_t>(record.sampling.n));
  for (std::size_t i = 0; i < given; ++i) {
    OutputEvent& event = order[i]->whole;
    event.index = static_cast<std::int32_t>(i);
    event.last = i + 1 == given;
    event.statistics = event.last ? statistics_of(record, now()) : RequestStatistics{};
    if (i == 0) event.prompt_logprobs = std::move(prompt);
    emit(std::move(event));
  }
}

// What a search found, best first.
void EngineLoop::give_beams(RequestRecord& record) {
  const SamplingParams& p = record.sampling;
  const auto found = record.beams->search.best(static_cast<std::size_t>(p.n));
  check(!found.empty(), "a search that is over found something");
  separate(record);
  record.open = static_cast<std::int32_t>(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const BeamHypothesis& hypothesis = found[i];
    OutputEvent event = event_for(record, static_cast<std::int32_t>(i));
    event.tokens = hypothesis.tokens;
    event.score = hypothesis.score;
    if (p.logprobs >= 0)
      for (const std::size_t step : hypothesis.steps)
        event.logprobs.push_back(record.beams->logprobs[step]);
    event.usage.completion_tokens = std::ssize(hypothesis.tokens);
    event.finish = hypothesis.end == BeamEnd::kLength ? FinishReason::kLength : FinishReason::kStop;
    const std::size_t shown =
        hypothesis.tokens.size() - (hypothesis.end == BeamEnd::kEndToken ? 1 : 0);
    AnswerText& text = record.answers[i]->text;
    for (std::size_t t = 0; t < shown; ++t)
      event.text +=
          text.push(hypothesis.tokens[t], static_cast<std::int64_t>(t) + 1 >= p.min_tokens);
    event.text += text.finish();
    if (i == 0) event.prompt_logprobs = std::move(record.prompt_logprobs);
    give(record, std::move(event));
  }
}

void EngineLoop::emit(OutputEvent&& event) {
  switch (event.finish) {
    case FinishReason::kRunning:
      break;
    case FinishReason::kStop:
    case FinishReason::kLength:
      totals_.finished += event.last;
      break;
    case FinishReason::kCancelled:
      totals_.cancelled += event.last;
      break;
    case FinishReason::kDeadline:
      totals_.expired += event.last;
      break;
    case FinishReason::kError:
      totals_.failed += event.last;
      break;
  }
  if (sink_) {
    (*sink_)(std::move(event));
  } else {
    pending_.push_back(std::move(event));
  }
}

// Nothing more will be told of it. What was drawn for it may still stand in told_.
void EngineLoop::close(RequestRecord& record) {
  deadlines_ -= record.deadline > 0;
  const auto known = records_.find(record.id);
  check(known != records_.end(), "a request ends once");
  if (options_.draft_model) options_.draft_model->forget(record.id);
  closed_.push_back(std::move(known->second));
  records_.erase(known);
}

void EngineLoop::end_request(RequestId id, FinishReason reason) {
  deliver();  // what it was given stays its own
  const auto known = records_.find(id);
  if (known == records_.end()) return;
  RequestRecord& record = *known->second;
  std::vector<std::int64_t> made;  // a search may have more beams than it gives answers
  if (SequenceGroup* group = scheduler_.find(id)) {
    for (const auto& s : group->members)
      made.push_back(static_cast<std::int64_t>(group->generated(*s)));
    let_go(*group);
  }
  separate(record);
  made.resize(record.answers.size(), 0);
  for (std::size_t i = 0; i < made.size() && record.open > 0; ++i) {
    if (record.answers[i]->ended) continue;
    OutputEvent event = event_for(record, static_cast<std::int32_t>(i));
    event.finish = reason;
    event.usage.completion_tokens = made[i];
    give(record, std::move(event));
  }
  closed_.clear();
}

}  // namespace ingot
