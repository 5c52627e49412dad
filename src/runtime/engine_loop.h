#pragma once

#include "base/result.h"
#include "ingot/request.h"
#include "ingot/statistics.h"
#include "plan/engine_info.h"
#include "runtime/draft_model.h"
#include "runtime/executor.h"
#include "runtime/request_record.h"
#include "runtime/scheduler.h"
#include "runtime/step_runner.h"
#include "runtime/step_sampler.h"
#include "text/tokenizer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ingot {

// With drafts, requests that run: more of them leave no time to waste on guesses.
inline constexpr std::int64_t kMostDrafting = 8;

// The error that a request ended with (kError), with the code of what failed.
Error error_of(const OutputEvent& event);

// Requests in, tokens out: schedule, run, sample, commit. While the device runs a step, the tokens
// of the step before become text and go out. One thread calls it.
class EngineLoop {
 public:
  struct Options {
    SchedulerPolicy policy = SchedulerPolicy::kMaxUtilization;
    bool overlap = true;  // false: a step begins when the texts of the one before are out
    // Most tokens that are guessed at once from what was there before (prompt lookup); 0: none.
    // Guesses are checked: they change the time of an answer, never the answer.
    std::int32_t draft_tokens = 0;
    DraftModel* draft_model = nullptr;  // guesses in place of prompt lookup; outlives the loop
    GrammarCompilerOptions grammars;
    // Seconds of processor time for masks that nobody wanted before: in a step, at most, before the
    // requests that still lack theirs sit out, and for a request, before it ends.
    double mask_seconds_of_step = 0.05;
    double mask_seconds_of_request = 10;
  };
  // All outlive the loop. `tokenizer` may be null: events then carry ids only.
  EngineLoop(Executor& executor, const EngineInfo& info, const Tokenizer* tokenizer);
  EngineLoop(Executor& executor, const EngineInfo& info, const Tokenizer* tokenizer,
             const Options& options);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Refused, as Error{kRequest} with numbers: parameters out of range, ids outside the vocabulary,
  // a prompt that is empty or longer than the context, more answers than the KV cache holds.
  Result<RequestId> submit(Request request);
  // Why submit() would refuse it; "" when it would not. Any thread may ask.
  std::string refusal_of(const Request& request) const;
  // Frees the request's pages at once; a last event says kCancelled. May be called from the sink.
  void cancel(RequestId id);
  bool has_work() const { return !records_.empty() || !pending_.empty(); }

  // One step. The sink gets what there is to tell, most of it while the step runs; it must not
  // throw. A failing step fails its own requests: their last events say kError.
  using EventSink = std::function<void(OutputEvent&&)>;
  void step(const EventSink& sink);
  // The same, as a list.
  std::vector<OutputEvent> step();

  const Scheduler& scheduler() const { return scheduler_; }
  // Somebody else wrote on the KV pages: nothing in them is found again. No request may be running.
  void forget_pages();
  // Of the last step, and of all.
  const StepStatistics& last_step() const { return last_step_; }
  EngineStatistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;
  // A token that is the request's already and has not gone out yet.
  struct Told {
    RequestRecord* record = nullptr;
    std::int32_t index = 0;
    std::int32_t token = -1;  // -1: none, only an end
    TokenLogprob logprob;
    std::int64_t completion_tokens = 0;
    FinishReason finish = FinishReason::kRunning;
    std::string error;
    ErrorCode error_code{};
  };

  double now() const;
  Error refusal(std::string message) const { return {ErrorCode::kRequest, std::move(message)}; }
  std::string refusal_of_prompt(const Request& request) const;
  std::string refusal_of_logprobs(const Request& request) const;
  std::size_t limit_of(const Request& request) const;

  void reserve();
  void run_step(ScheduledStep& step, bool guided);
  void finish_step(const ScheduledStep& step);
  void fail_step(const ScheduledStep& step, const Error& error);
  void fail_request(RequestRecord& record, const Error& error);
  void accept(const ScheduledStep::Entry& entry, std::span<DrawnToken> drawn);
  bool accept_token(SequenceGroup& group, Sequence& sequence, DrawnToken& drawn);
  void add_answer(RequestRecord& record, const SamplingState& state);
  void separate(RequestRecord& record);
  void start_search(RequestRecord& record, const SequenceGroup& group);
  void accept_beams(SequenceGroup& group);
  void guess(SequenceGroup& group, Sequence& sequence);
  std::string want_grammar(const Request& request, RequestRecord& record, SequenceGroup& group);
  void start_grammars();
  void wait_for_grammars();
  std::string take_grammar(RequestRecord& record);
  std::string take_masks(RequestRecord& record);
  void fill_masks(const ScheduledStep& step);
  void follow(RequestRecord& record, GrammarMatcher& matcher);
  void ration(double time);
  void hold_for_masks(SequenceGroup& group);
  std::function<void()> waker() const;
  void ask_draft_model(const ScheduledStep& step);
  bool guesses() const { return options_.draft_tokens > 0 || options_.draft_model; }
  void part(SequenceGroup& group, std::span<DrawnToken> drawn);
  Told& tell(RequestRecord& record, std::int32_t index);
  void end_answer(SequenceGroup& group, Sequence& sequence);
  void let_go(SequenceGroup& group);
  static void count_token(RequestRecord& record, AnswerRecord& answer, double time);

  void deliver();
  void deliver(Told& told);
  void give(RequestRecord& record, OutputEvent&& event);
  void give_best(RequestRecord& record);
  void give_beams(RequestRecord& record);
  void emit(OutputEvent&& event);
  void close(RequestRecord& record);
  OutputEvent event_for(const RequestRecord& record, std::int32_t index) const;
  RequestStatistics statistics_of(const RequestRecord& record, double time) const;
  void end_by_text();
  void cancel_asked();
  void end_request(RequestId id, FinishReason reason);
  void expire();
  void count_step(const ScheduledStep& step, double began);

  Executor& executor_;
  const EngineInfo& info_;
  const Tokenizer* tokenizer_;
  Options options_;
  Clock::time_point start_ = Clock::now();
  Scheduler scheduler_;
  StepSampler sampler_;
  std::unique_ptr<StepRunner> runner_;
  std::unordered_map<RequestId, std::unique_ptr<RequestRecord>> records_;
  std::vector<Told> told_;  // of the last step
  std::size_t told_count_ = 0;
  std::vector<OutputEvent> pending_;  // of requests that ended outside a step
  std::vector<RequestId> cancels_;    // asked for while a step or the sink ran
  std::vector<std::pair<RequestId, std::int32_t>> stopped_;  // answers that a text ended
  // Until the step that still has them is over.
  std::vector<std::unique_ptr<RequestRecord>> closed_;
  std::vector<RequestId> unready_;             // requests whose grammar, or masks, are being made
  std::unique_ptr<GrammarCompiler> grammars_;  // from the first request on that wants one
  // Requests whose grammars take long to follow, who was served last at the end; and the processor
  // time that grammars may take now.
  std::vector<RequestId> dear_;
  double grammar_seconds_ = 0;
  double rationed_at_ = 0;
  struct Woken;
  std::shared_ptr<Woken> woken_;     // by a grammar that is ready
  const EventSink* sink_ = nullptr;  // while step() runs
  std::vector<DraftModel::Target> draft_targets_;
  bool running_ = false;  // the device runs a step
  bool delivering_ = false;
  double drawn_at_ = 0;         // when the tokens of this step were
  std::int64_t deadlines_ = 0;  // requests that have one
  RequestId next_id_ = 1;
  StepStatistics last_step_;
  EngineStatistics totals_;
};

}  // namespace ingot
