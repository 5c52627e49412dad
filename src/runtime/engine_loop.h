#pragma once

#include "base/result.h"
#include "ingot/request.h"
#include "plan/engine_info.h"
#include "runtime/answer_text.h"
#include "runtime/executor.h"
#include "runtime/logprobs.h"
#include "runtime/sampler.h"
#include "runtime/sampling_state.h"
#include "runtime/scheduler.h"
#include "text/tokenizer.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ingot {

// The error that a request ended with (kError), with the code of what failed.
Error error_of(const OutputEvent& event);

// Requests in, tokens out: schedule, run, sample, commit. One thread calls it.
class EngineLoop {
 public:
  // All outlive the loop. `tokenizer` may be null: events then carry ids only.
  EngineLoop(Executor& executor, const EngineInfo& info, const Tokenizer* tokenizer);

  // Refused, as Error{kRequest} with numbers: parameters out of range, ids outside the vocabulary,
  // a prompt that is empty or longer than the context.
  Result<RequestId> submit(Request request);
  // Frees the request's pages at once; a last event says kCancelled.
  void cancel(RequestId id);
  bool has_work() const { return scheduler_.has_work() || !pending_.empty(); }

  // One step. A failing step fails its own requests: their last events say kError.
  std::vector<OutputEvent> step();

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    AnswerText text;
    SamplingState state;
    LogitsCallback change_logits;
    Clock::time_point submitted;
    double first_token = 0;
  };

  // What `request` asks that cannot be done: parameters, prompt. "" otherwise.
  std::string refusal_of(const Request& request) const;
  std::int32_t draw(const Sequence& sequence, std::span<const float> logits);
  Error refusal(std::string message) const { return {ErrorCode::kRequest, std::move(message)}; }
  void run_step(const ScheduledStep& step, std::vector<OutputEvent>& events);
  void accept(Sequence& sequence, std::int32_t token, OutputEvent& event);
  std::vector<std::int32_t> forbidden_now(const Sequence& sequence) const;
  bool ends(const Sequence& sequence, std::int32_t token) const;
  OutputEvent event_for(const Sequence& sequence) const;
  void finish(Sequence& sequence, FinishReason reason, OutputEvent& event);

  Executor& executor_;
  const EngineInfo& info_;
  const Tokenizer* tokenizer_;
  Scheduler scheduler_;
  Sampler sampler_;
  Logprobs logprobs_;
  std::map<RequestId, Answer> answers_;
  std::vector<OutputEvent> pending_;  // of requests that ended outside a step
  RequestId next_id_ = 1;
};

}  // namespace ingot
