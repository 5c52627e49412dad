#include "runtime/engine_loop.h"

#include "base/check.h"
#include "base/error.h"
#include "base/exception.h"
#include "runtime/bad_words.h"
#include "runtime/check_sampling.h"

#include <algorithm>
#include <random>
#include <utility>

namespace ingot {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kRunning:
      return "running";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

Error error_of(const OutputEvent& event) {
  check(event.finish == FinishReason::kError, "only what failed has an error");
  return {event.error_code, event.error};
}

EngineLoop::EngineLoop(Executor& executor, const EngineInfo& info, const Tokenizer* tokenizer)
    : executor_(executor),
      info_(info),
      tokenizer_(tokenizer),
      scheduler_({.max_tokens = executor.plan().max[Symbol::kTokens],
                  .max_sequences = executor.plan().max[Symbol::kSequences],
                  .page_tokens = executor.plan().page_tokens,
                  .kv_pages = executor.kv_pages()}) {}

// What the parameters may say and this loop does not do.
std::string EngineLoop::refusal_of(const Request& request) const {
  const SamplingParams& p = request.sampling;
  const std::int64_t vocab = executor_.vocab();
  if (std::string wrong = check_sampling(p, vocab); !wrong.empty()) return "[request] " + wrong;
  if (p.beam_width != 1) return fmt::format("[request] beam_width {}: wanted 1", p.beam_width);
  if (p.n != 1) return fmt::format("[request] n {}: wanted 1", p.n);
  if (p.best_of > 1) return fmt::format("[request] best_of {}: wanted 1", p.best_of);
  if (p.prompt_logprobs >= 0)
    return fmt::format("[request] prompt_logprobs {}: wanted none", p.prompt_logprobs);
  if (!p.bad_words.empty() && !tokenizer_)
    return "[request] bad_words: the engine has no tokenizer; wanted bad_token_ids";
  if (request.prompt.empty()) return "[request.prompt] is empty, and there is nothing to continue";
  for (const std::int32_t id : request.prompt)
    if (id < 0 || id >= vocab)
      return fmt::format("[request.prompt] token {} is outside the vocabulary of {}", id, vocab);
  if (request.prompt.size() >= static_cast<std::size_t>(info_.max_seq))
    return fmt::format(
        "[request.prompt] {} tokens; the context holds {} with room for one of the answer",
        request.prompt.size(), info_.max_seq);
  return {};
}

Result<RequestId> EngineLoop::submit(Request request) {
  if (std::string wrong = refusal_of(request); !wrong.empty()) return refusal(std::move(wrong));
  if (tokenizer_) resolve_bad_words(request.sampling, *tokenizer_);
  const auto max_seq = static_cast<std::size_t>(info_.max_seq);
  auto sequence = std::make_unique<Sequence>();
  sequence->id = next_id_++;
  sequence->prompt_tokens = request.prompt.size();
  const auto wanted = static_cast<std::size_t>(request.sampling.max_tokens);
  sequence->limit = wanted == 0 ? max_seq : std::min(max_seq, request.prompt.size() + wanted);
  if (!scheduler_.fits(sequence->limit)) {
    const auto room = static_cast<std::size_t>(executor_.kv_pages() * executor_.plan().page_tokens);
    if (request.prompt.size() >= room)
      return refusal(fmt::format("[request.prompt] {} tokens; the KV cache holds {}",
                                 request.prompt.size(), room));
    sequence->limit = room;
  }
  sequence->tokens = std::move(request.prompt);
  sequence->rope_row =
      info_.rope_long_from > 0 && static_cast<std::int64_t>(sequence->limit) > info_.rope_long_from;
  sequence->seed = request.sampling.seed
                       ? *request.sampling.seed
                       : (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  sequence->sampling = std::move(request.sampling);
  const SamplingParams& p = sequence->sampling;
  answers_.emplace(sequence->id, Answer{.text = AnswerText(tokenizer_, p.stop, p.include_stop_str),
                                        .state = SamplingState(p, sequence->tokens),
                                        .change_logits = std::move(request.change_logits),
                                        .submitted = Clock::now()});
  return scheduler_.add(std::move(sequence)).id;
}

void EngineLoop::cancel(RequestId id) {
  Sequence* sequence = scheduler_.find(id);
  if (!sequence) return;
  OutputEvent event = event_for(*sequence);
  finish(*sequence, FinishReason::kCancelled, event);
  pending_.push_back(std::move(event));
}

std::vector<OutputEvent> EngineLoop::step() {
  std::vector<OutputEvent> events = std::exchange(pending_, {});
  const ScheduledStep step = scheduler_.next();
  if (step.sequences.empty()) return events;
  std::vector<RequestId> ids;
  for (const Sequence* sequence : step.sequences) ids.push_back(sequence->id);
  try {
    run_step(step, events);
  } catch (const std::exception& e) {
    const Error error = as_error(e);
    for (const RequestId id : ids) {
      Sequence* sequence = scheduler_.find(id);
      if (!sequence) continue;  // had ended before the fault
      OutputEvent event = event_for(*sequence);
      event.error = error.message();
      event.error_code = error.code();
      finish(*sequence, FinishReason::kError, event);
      events.push_back(std::move(event));
    }
  }
  return events;
}

void EngineLoop::run_step(const ScheduledStep& step, std::vector<OutputEvent>& events) {
  const auto vocab = static_cast<std::size_t>(executor_.vocab());
  std::vector<std::int32_t> drawn(step.sampled.size());
  std::vector<std::string> failed(step.sampled.size());
  std::vector<TokenLogprob> logprobs(step.sampled.size());
  executor_.run(step.batch,
                [&](std::int64_t first, std::int64_t count, std::span<const float> logits) {
                  for (std::int64_t r = 0; r < count; ++r) {
                    const auto at = static_cast<std::size_t>(first + r);
                    const Sequence& s = *step.sampled[at];
                    const auto row = logits.subspan(static_cast<std::size_t>(r) * vocab, vocab);
                    try {
                      drawn[at] = draw(s, row);
                      if (s.sampling.logprobs >= 0)
                        logprobs[at] = logprobs_.of(row, drawn[at], s.sampling.logprobs);
                    } catch (const Error& e) {
                      if (e.code() != ErrorCode::kRequest) throw;
                      failed[at] = e.message();
                    }
                  }
                });
  scheduler_.commit(step);
  for (std::size_t i = 0; i < step.sampled.size(); ++i) {
    Sequence& s = *step.sampled[i];
    OutputEvent event = event_for(s);
    if (!failed[i].empty()) {
      event.error = failed[i];
      event.error_code = ErrorCode::kRequest;
      finish(s, FinishReason::kError, event);
    } else {
      if (s.sampling.logprobs >= 0) event.logprobs.push_back(std::move(logprobs[i]));
      accept(s, drawn[i], event);
    }
    events.push_back(std::move(event));
  }
}

std::int32_t EngineLoop::draw(const Sequence& s, std::span<const float> logits) {
  const Answer& answer = answers_.at(s.id);
  const std::vector<std::int32_t> forbidden = forbidden_now(s);
  return sampler_.draw(logits, s.sampling,
                       {.state = answer.state,
                        .seed = s.seed,
                        .position = s.tokens.size(),
                        .forbidden = forbidden,
                        .callback = &answer.change_logits,
                        .tokens = s.tokens,
                        .prompt_tokens = s.prompt_tokens});
}

// Whatever would end the answer, before it may end.
std::vector<std::int32_t> EngineLoop::forbidden_now(const Sequence& s) const {
  if (s.generated() >= static_cast<std::size_t>(s.sampling.min_tokens)) return {};
  std::vector<std::int32_t> ids = s.sampling.stop_token_ids;
  if (!s.sampling.ignore_eos) ids.insert(ids.end(), info_.end_ids.begin(), info_.end_ids.end());
  return ids;
}

bool EngineLoop::ends(const Sequence& s, std::int32_t token) const {
  const auto& own = s.sampling.stop_token_ids;
  if (std::find(own.begin(), own.end(), token) != own.end()) return true;
  if (s.sampling.ignore_eos) return false;
  return std::find(info_.end_ids.begin(), info_.end_ids.end(), token) != info_.end_ids.end();
}

void EngineLoop::accept(Sequence& s, std::int32_t token, OutputEvent& event) {
  Answer& answer = answers_.at(s.id);
  const double now = std::chrono::duration<double>(Clock::now() - answer.submitted).count();
  if (s.generated() == 0) answer.first_token = now;
  s.tokens.push_back(token);
  answer.state.push(token);
  event.tokens.push_back(token);
  event.usage.completion_tokens = static_cast<std::int64_t>(s.generated());
  if (ends(s, token)) {
    event.text = answer.text.finish();
    return finish(s, FinishReason::kStop, event);
  }
  const bool may_end = s.generated() >= static_cast<std::size_t>(s.sampling.min_tokens);
  event.text = answer.text.push(token, may_end);
  if (answer.text.stopped()) return finish(s, FinishReason::kStop, event);
  if (s.tokens.size() >= s.limit) {
    event.text += answer.text.finish();
    return finish(s, answer.text.stopped() ? FinishReason::kStop : FinishReason::kLength, event);
  }
}

OutputEvent EngineLoop::event_for(const Sequence& s) const {
  OutputEvent event{.id = s.id};
  event.seed = s.seed;
  event.usage = {.prompt_tokens = static_cast<std::int64_t>(s.prompt_tokens),
                 .completion_tokens = static_cast<std::int64_t>(s.generated())};
  return event;
}

void EngineLoop::finish(Sequence& s, FinishReason reason, OutputEvent& event) {
  const Answer& answer = answers_.at(s.id);
  event.finish = reason;
  event.timing = {.first_token = answer.first_token,
                  .total = std::chrono::duration<double>(Clock::now() - answer.submitted).count()};
  answers_.erase(s.id);
  scheduler_.remove(s.id);
}

}  // namespace ingot
