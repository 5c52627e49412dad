#include "runtime/engine_loop.h"

#include "base/check.h"
#include "base/error.h"
#include "base/exception.h"
#include "base/log.h"
#include "runtime/bad_words.h"
#include "runtime/check_sampling.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

namespace ingot {

namespace {

constexpr double kSecondsPerPriority = 10;
constexpr std::int32_t kHighestPriority = 100;

// What the request is given at its end, and what is computed for it.
std::int32_t answers_of(const SamplingParams& p) {
  return p.beam_width > 1 ? p.n : std::max(p.n, p.best_of);
}

std::int32_t width_of(const SamplingParams& p) {
  return std::max(p.beam_width, answers_of(p));
}

// Alternatives that a request may have waiting at once: those of its prompt, and of answers that
// are held back until they are compared. 8 bytes each, and no plan counts them.
constexpr std::uint64_t kMostAlternatives = std::uint64_t{1} << 20;

}  // namespace

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
    case FinishReason::kDeadline:
      return "deadline";
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
    : EngineLoop(executor, info, tokenizer, Options()) {}

EngineLoop::EngineLoop(Executor& executor, const EngineInfo& info, const Tokenizer* tokenizer,
                       const Options& options)
    : executor_(executor),
      info_(info),
      tokenizer_(tokenizer),
      options_(options),
      scheduler_({.max_tokens = executor.plan().max[Symbol::kTokens],
                  .max_sequences = executor.plan().max[Symbol::kSequences],
                  .max_pages = executor.plan().max[Symbol::kPages],
                  .page_tokens = executor.plan().page_tokens,
                  .kv_pages = executor.kv_pages(),
                  .host_pages = executor.host_pages(),
                  .reach = kv_reach(executor.plan()),
                  .policy = options.policy}),
      sampler_(tokenizer) {
  if (options_.overlap) runner_ = std::make_unique<StepRunner>();
  reserve();
}

// What steps want, so that none of them allocates.
void EngineLoop::reserve() {
  const DimValues& max = executor_.plan().max;
  const auto sequences = static_cast<std::size_t>(max[Symbol::kSequences]);
  std::size_t drafts = static_cast<std::size_t>(options_.draft_tokens);
  if (options_.draft_model) drafts = options_.draft_model->most();
  const std::size_t drawn =
      std::min(sequences * (1 + drafts), static_cast<std::size_t>(max[Symbol::kTokens]));
  sampler_.reserve({.sequences = sequences,
                    .drawn = drawn,
                    .longest = static_cast<std::size_t>(info_.max_seq),
                    .vocab = static_cast<std::size_t>(executor_.vocab())});
  told_.resize(drawn);
  closed_.reserve(sequences);
  stopped_.reserve(sequences);
  draft_targets_.reserve(sequences);
}

EngineLoop::~EngineLoop() = default;

double EngineLoop::now() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

// What parameters may say and this loop does not do.
std::string EngineLoop::refusal_of(const Request& request) const {
  const SamplingParams& p = request.sampling;
  if (std::string wrong = check_sampling(p, executor_.vocab()); !wrong.empty())
    return "[request] " + wrong;
  if (p.beam_width > 1 && guesses())
    return fmt::format("[request] beam_width {}: wanted 1 with --draft; beams are not guessed",
                       p.beam_width);
  if (!p.bad_words.empty() && !tokenizer_)
    return "[request] bad_words: the engine has no tokenizer; wanted bad_token_ids";
  const std::int64_t rows = executor_.plan().max[Symbol::kSequences];
  if (width_of(p) > rows)
    return fmt::format("[request] {} answers at once; the engine was built for {}, see --max-batch",
                       width_of(p), rows);
  if (std::abs(request.priority) > kHighestPriority)
    return fmt::format("[request] priority {}: wanted -{} to {}", request.priority,
                       kHighestPriority, kHighestPriority);
  if (!(request.deadline >= 0) || !std::isfinite(request.deadline))
    return fmt::format("[request] deadline {}: wanted seconds from now, or 0", request.deadline);
  if (request.cache_priority < 0 || request.cache_priority > Retention::kHighest)
    return fmt::format("[request] cache_priority {}: wanted 0 to {}", request.cache_priority,
                       Retention::kHighest);
  if (!(request.cache_seconds >= 0) || !std::isfinite(request.cache_seconds))
    return fmt::format("[request] cache_seconds {}: wanted 0 or more", request.cache_seconds);
  return refusal_of_prompt(request);
}

std::string EngineLoop::refusal_of_prompt(const Request& request) const {
  const std::int64_t vocab = executor_.vocab();
  if (request.prompt.empty()) return "[request.prompt] is empty, and there is nothing to continue";
  for (const std::int32_t id : request.prompt)
    if (id < 0 || id >= vocab)
      return fmt::format("[request.prompt] token {} is outside the vocabulary of {}", id, vocab);
  const auto tokens = request.prompt.size();
  if (tokens >= static_cast<std::size_t>(info_.max_seq))
    return fmt::format(
        "[request.prompt] {} tokens; the context holds {} with room for one of the answer; shorten "
        "it, or raise --max-seq",
        tokens, info_.max_seq);
  const std::int32_t answers = width_of(request.sampling);
  if (!scheduler_.fits(tokens, tokens + 1, answers)) {
    const auto room = executor_.kv_pages() * executor_.plan().page_tokens;
    if (answers == 1)
      return fmt::format(
          "[request.prompt] {} tokens; the KV cache holds {}; shorten it, or raise --memory",
          tokens, room);
    return fmt::format(
        "[request.prompt] {} tokens with {} answers; the KV cache holds {} tokens; ask for fewer, "
        "shorten it, or raise --memory",
        tokens, answers, room);
  }
  return refusal_of_logprobs(request);
}

std::string EngineLoop::refusal_of_logprobs(const Request& request) const {
  const SamplingParams& p = request.sampling;
  const auto refusal = [](std::string_view field, std::int32_t top, std::uint64_t positions) {
    const std::uint64_t wanted = positions * static_cast<std::uint64_t>(std::max(top, 0));
    if (wanted <= kMostAlternatives) return std::string();
    return fmt::format("[request] {} {}: of {} tokens they are {} at once; wanted at most {}, {}",
                       field, top, positions, wanted, kMostAlternatives,
                       kMostAlternatives / positions);
  };
  const std::size_t prompt = request.prompt.size();
  std::string wrong = refusal("prompt_logprobs", p.prompt_logprobs, prompt);
  const bool held_back = p.beam_width > 1 || p.best_of > p.n;
  if (wrong.empty() && held_back && p.logprobs > 0)
    wrong = refusal("logprobs", p.logprobs,
                    (limit_of(request) - prompt) * static_cast<std::uint64_t>(width_of(p)));
  return wrong;
}

// Most tokens that an answer may hold, its prompt included: what is asked for, the context, and
// what the cache holds of it.
std::size_t EngineLoop::limit_of(const Request& request) const {
  const auto max_seq = static_cast<std::size_t>(info_.max_seq);
  const std::size_t prompt = request.prompt.size();
  const auto wanted = static_cast<std::size_t>(request.sampling.max_tokens);
  const std::size_t limit = wanted == 0 ? max_seq : std::min(max_seq, prompt + wanted);
  const std::int32_t answers = width_of(request.sampling);
  if (scheduler_.fits(prompt, limit, answers)) return limit;
  std::size_t fits = prompt + 1, too_long = limit;
  while (too_long - fits > 1) {
    const std::size_t middle = fits + (too_long - fits) / 2;
    (scheduler_.fits(prompt, middle, answers) ? fits : too_long) = middle;
  }
  return fits;
}

Result<RequestId> EngineLoop::submit(Request request) {
  if (std::string wrong = refusal_of(request); !wrong.empty()) return refusal(std::move(wrong));
  if (tokenizer_) resolve_bad_words(request.sampling, *tokenizer_);
  const double time = now();
  auto record = std::make_unique<RequestRecord>();
  auto group = std::make_unique<SequenceGroup>();
  record->id = group->id = next_id_++;
  group->record = record.get();
  group->prompt_tokens = record->prompt_tokens = request.prompt.size();
  group->limit = record->limit = limit_of(request);
  group->rope_row =
      info_.rope_long_from > 0 && static_cast<std::int64_t>(group->limit) > info_.rope_long_from;
  group->width = width_of(request.sampling);
  group->lockstep = request.sampling.beam_width > 1;
  record->open = answers_of(request.sampling);
  group->prompt_rows = request.sampling.prompt_logprobs >= 0;
  group->share = request.share_cache;
  group->order = static_cast<std::int64_t>(1000 * (time - kSecondsPerPriority * request.priority));
  record->seed = request.sampling.seed
                     ? *request.sampling.seed
                     : (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  record->sampling = std::move(request.sampling);
  record->change_logits = std::move(request.change_logits);
  record->compares = record->sampling.best_of > record->sampling.n && !group->lockstep;
  record->submitted = time;
  record->deadline = request.deadline > 0 ? time + request.deadline : 0;
  deadlines_ += record->deadline > 0;
  const SamplingParams& p = record->sampling;
  record->end_ids = p.stop_token_ids;
  // A grammar says when to end, and says it by these.
  if (!p.ignore_eos || request.guided.kind != GuidedKind::kNone)
    record->end_ids.insert(record->end_ids.end(), info_.end_ids.begin(), info_.end_ids.end());
  add_answer(*record, SamplingState(p, request.prompt));

  if (group->lockstep) start_search(*record, *group);
  if (options_.draft_tokens > 0 && !options_.draft_model)
    record->answers[0]->drafter.emplace(group->limit,
                                        static_cast<std::size_t>(options_.draft_tokens));

  if (std::string wrong = want_grammar(request, *record, *group); !wrong.empty())
    return refusal(std::move(wrong));

  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = std::move(request.prompt);
  sequence->seed = record->seed;
  sequence->drafts.reserve(static_cast<std::size_t>(options_.draft_tokens));
  sequence->chain.retention = {.priority = request.cache_priority,
                               .seconds = request.cache_seconds};
  group->members.push_back(std::move(sequence));
  ++totals_.requests;
  const RequestId id = record->id;
  records_.emplace(id, std::move(record));
  scheduler_.add(std::move(group), request.cache_salt);
  return id;
}

void EngineLoop::cancel(RequestId id) {
  if (running_ || delivering_) {
    cancels_.push_back(id);
  } else {
    end_request(id, FinishReason::kCancelled);
  }
}

void EngineLoop::cancel_asked() {
  for (const RequestId id : std::exchange(cancels_, {})) end_request(id, FinishReason::kCancelled);
}

void EngineLoop::expire() {
  std::vector<RequestId> late;
  for (const auto& [id, record] : records_)
    if (record->deadline > 0 && now() >= record->deadline) late.push_back(id);
  std::ranges::sort(late);
  for (const RequestId id : late) end_request(id, FinishReason::kDeadline);
}

std::vector<OutputEvent> EngineLoop::step() {
  std::vector<OutputEvent> events;
  step([&](OutputEvent&& event) { events.push_back(std::move(event)); });
  return events;
}

void EngineLoop::step(const EventSink& sink) {
  sink_ = &sink;
  for (OutputEvent& event : std::exchange(pending_, {})) sink(std::move(event));
  cancel_asked();
  if (deadlines_ > 0) expire();
  const double began = now();
  if (grammars_) ration(began);
  if (!unready_.empty()) start_grammars();
  ScheduledStep& step = scheduler_.next(began);
  if (step.empty()) {
    deliver();
    if (!unready_.empty()) wait_for_grammars();
  } else {
    last_step_ = {.step = totals_.steps + 1, .schedule_seconds = now() - began};
    bool guided = false;
    for (const ScheduledStep::Entry& entry : step.entries) {
      RequestRecord& record = *entry.group->record;
      guided = guided || record.grammar;
      if (record.started >= 0) continue;
      record.started = began;
      record.cached_tokens = static_cast<std::int64_t>(entry.group->reused);
      totals_.prompt_tokens += static_cast<std::int64_t>(record.prompt_tokens);
      totals_.cached_tokens += record.cached_tokens;
    }
    run_step(step, guided);
    if (!options_.overlap || !scheduler_.has_work()) deliver();
  }
  cancel_asked();
  sink_ = nullptr;
}

// `guided`: somebody in it has a grammar.
void EngineLoop::run_step(ScheduledStep& step, bool guided) {
  const double began = now();
  const bool aside = runner_ && (told_count_ > 0 || guided);
  sampler_.begin(step, aside && guided);
  const auto run = [this, &step] {
    executor_.run(step.batch,
                  [this](std::int64_t first, std::int64_t count, std::span<const float> logits) {
                    sampler_.take(first, count, logits);
                  });
    sampler_.end();
  };
  std::optional<Error> error;
  running_ = true;
  try {
    if (aside) {
      runner_->start(run);
      if (guided) fill_masks(step);
      sampler_.give_masks();
      deliver();
      runner_->wait();
    } else {
      if (guided) fill_masks(step);
      run();
    }
  } catch (const std::exception& e) {
    error = as_error(e);
  }
  if (aside) {  // also when something beside it failed
    sampler_.give_masks();
    runner_->finish();
  }
  running_ = false;
  last_step_.run_seconds = now() - began;
  end_by_text();
  cancel_asked();
  if (error) {
    fail_step(step, *error);
  } else {
    finish_step(step);
  }
  closed_.clear();
  count_step(step, began);
}

void EngineLoop::finish_step(const ScheduledStep& step) {
  drawn_at_ = now();
  scheduler_.commit(step);
  for (std::size_t i = 0; i < step.entries.size(); ++i) {
    SequenceGroup& group = *step.entries[i].group;
    if (group.phase == Phase::kGone) continue;
    try {
      if (group.record->unmasked) {
        hold_for_masks(group);
      } else if (group.record->beams) {
        if (group.record->beams->advanced) accept_beams(group);
      } else if (!sampler_.drawn(i).empty()) {
        accept(step.entries[i], sampler_.drawn(i));
      }
    } catch (const Error& e) {
      // What a grammar has no memory for is the trouble of one request.
      if (e.code() == ErrorCode::kBug || !scheduler_.find(group.record->id)) throw;
      fail_request(*group.record, e);
    }
  }
  if (options_.draft_model) ask_draft_model(step);
}

// Once all tokens of the step are known: the smaller model guesses for all at once.
void EngineLoop::ask_draft_model(const ScheduledStep& step) {
  if (static_cast<std::int64_t>(scheduler_.running()) > kMostDrafting) return;
  draft_targets_.clear();
  for (const ScheduledStep::Entry& entry : step.entries) {
    SequenceGroup& group = *entry.group;
    if (group.phase != Phase::kRunning) continue;
    for (const auto& s : group.members)
      if (!s->done && s->attached && s->left() == 1 && group.generated(*s) > 0 &&
          std::ranges::find(draft_targets_, s.get(), &DraftModel::Target::sequence) ==
              draft_targets_.end())
        draft_targets_.push_back({group.record, s.get(), group.limit - s->tokens.size() - 1});
  }
  try {
    options_.draft_model->guess(draft_targets_);
  } catch (const std::exception& e) {
    log_warning("[draft] {}; going on without guesses", as_error(e).message());
    options_.draft_model = nullptr;
  }
}

void EngineLoop::start_search(RequestRecord& record, const SequenceGroup& group) {
  const SamplingParams& p = record.sampling;
  BeamOptions options{.width = p.beam_width,
                      .length_penalty = p.length_penalty,
                      .early_stopping = p.early_stopping,
                      .diversity_rate = p.beam_search_diversity_rate,
                      .end_ids = record.end_ids,
                      .max_tokens = group.limit - group.prompt_tokens};
  record.beams = std::make_unique<BeamRecord>(std::move(options));
  record.beams->states.push_back(record.answers[0]->state);
}

// The beams of the next step take the places of those of this one.
void EngineLoop::accept_beams(SequenceGroup& group) {
  RequestRecord& record = *group.record;
  BeamRecord& beams = *record.beams;
  beams.advanced = false;
  if (!beams.error.empty()) return fail_request(record, {ErrorCode::kRequest, beams.error});
  totals_.generated_tokens += std::ssize(beams.steps);
  count_token(record, *record.answers[0], drawn_at_);
  record.generated += std::ssize(beams.steps) - 1;
  if (beams.search.live() == 0) {
    tell(record, 0);
    let_go(group);
    return;
  }
  std::vector<std::int32_t> parents;
  std::vector<SamplingState> states;
  std::vector<GrammarMatcher> matchers;
  for (const BeamStep& step : beams.steps) {
    const auto parent = static_cast<std::size_t>(step.parent);
    parents.push_back(step.parent);
    states.push_back(beams.states[parent]);
    states.back().push(step.token);
    if (!record.grammar) continue;
    matchers.push_back(beams.matchers[parent]);
    check(matchers.back().accept(step.token), "what a grammar allows it takes");
    follow(record, matchers.back());
  }
  beams.states = std::move(states);
  beams.matchers = std::move(matchers);
  scheduler_.follow(group, parents);
  for (std::size_t i = 0; i < beams.steps.size(); ++i)
    group.members[i]->tokens.push_back(beams.steps[i].token);
}

void EngineLoop::fail_step(const ScheduledStep& step, const Error& error) {
  for (const ScheduledStep::Entry& entry : step.entries)
    if (entry.group->phase != Phase::kGone) fail_request(*entry.group->record, error);
  scheduler_.abandon();
}

void EngineLoop::fail_request(RequestRecord& record, const Error& error) {
  separate(record);
  SequenceGroup* group = scheduler_.find(record.id);
  for (std::size_t i = 0; i < record.answers.size(); ++i) {
    if (!record.beams && i < group->members.size() && group->members[i]->done) continue;
    Told& told = tell(record, static_cast<std::int32_t>(i));
    told.finish = FinishReason::kError;
    told.error = error.message();
    told.error_code = error.code();
  }
  let_go(*group);
}

EngineLoop::Told& EngineLoop::tell(RequestRecord& record, std::int32_t index) {
  if (told_count_ == told_.size()) told_.emplace_back();
  Told& told = told_[told_count_++];
  told.record = &record;
  told.index = index;
  told.token = -1;
  told.completion_tokens = 0;
  told.finish = FinishReason::kRunning;
  told.error.clear();
  return told;
}

void EngineLoop::accept(const ScheduledStep::Entry& entry, std::span<DrawnToken> drawn) {
  SequenceGroup& group = *entry.group;
  Sequence& s = *entry.sequence;
  if (group.phase == Phase::kGone || s.done) return;
  if (group.width > 1 && group.members.size() == 1) return part(group, drawn);
  const std::size_t guessed = s.drafts.size();
  s.drafts.clear();
  group.record->drafted_tokens += static_cast<std::int64_t>(guessed);
  group.record->accepted_drafts += std::ssize(drawn) - 1;
  totals_.drafted_tokens += static_cast<std::int64_t>(guessed);
  totals_.accepted_drafts += std::ssize(drawn) - 1;
  for (DrawnToken& token : drawn)
    if (!accept_token(group, s, token)) return;
  if (guessed > 0) scheduler_.settle(s, s.tokens.size() - 1);
  if (auto& drafter = group.record->answers[static_cast<std::size_t>(s.index)]->drafter) {
    drafter->learn(guessed, drawn.size() - 1);
    guess(group, s);
  }
}

// The step after draws one more than it was told, so an answer's last token is never a guess.
void EngineLoop::guess(SequenceGroup& group, Sequence& s) {
  auto& drafter = group.record->answers[static_cast<std::size_t>(s.index)]->drafter;
  if (!drafter) return;
  drafter->follow(s.tokens);
  if (static_cast<std::int64_t>(scheduler_.running()) > kMostDrafting) return;
  drafter->guess(s.tokens, group.limit - s.tokens.size() - 1, s.drafts);
}

void EngineLoop::add_answer(RequestRecord& record, const SamplingState& state) {
  const SamplingParams& p = record.sampling;
  auto answer =
      std::make_unique<AnswerRecord>(AnswerText(tokenizer_, p.stop, p.include_stop_str), state);
  answer->state.reserve(record.limit, static_cast<std::size_t>(executor_.vocab()));
  record.answers.push_back(std::move(answer));
}

// A record for each answer: until now all were one.
void EngineLoop::separate(RequestRecord& record) {
  while (std::ssize(record.answers) < answers_of(record.sampling))
    add_answer(record, record.answers[0]->state);
  for (std::size_t i = 1; i < record.answers.size(); ++i) {
    record.answers[i]->drafter = record.answers[0]->drafter;
    if (record.grammar) record.answers[i]->matcher.emplace(record.grammar);
  }
}

// The prompt has been read: from here on each answer goes its way.
void EngineLoop::part(SequenceGroup& group, std::span<DrawnToken> drawn) {
  RequestRecord& record = *group.record;
  separate(record);
  std::vector<std::uint64_t> seeds;
  for (std::int32_t i = 1; i < group.width; ++i)
    seeds.push_back(seed_of_answer(record.seed, static_cast<std::uint64_t>(i)));
  scheduler_.fork(group, seeds);
  // The last to end takes the request out, and the members with it: so by number.
  for (std::size_t i = 0; i < drawn.size(); ++i)
    if (accept_token(group, *group.members[i], drawn[i])) guess(group, *group.members[i]);
}

// False when the answer has ended with it.
bool EngineLoop::accept_token(SequenceGroup& group, Sequence& s, DrawnToken& drawn) {
  RequestRecord& record = *group.record;
  AnswerRecord& answer = *record.answers[static_cast<std::size_t>(s.index)];
  Told& told = tell(record, s.index);
  if (!drawn.error.empty()) {
    told.error = drawn.error;
    told.error_code = ErrorCode::kRequest;
    told.finish = FinishReason::kError;
    told.completion_tokens = static_cast<std::int64_t>(group.generated(s));
    end_answer(group, s);
    return false;
  }
  count_token(record, answer, drawn_at_);
  s.tokens.push_back(drawn.token);
  answer.state.push(drawn.token);
  const bool follows = !answer.matcher || answer.matcher->accept(drawn.token);
  check(follows, "what a grammar allows it takes");
  if (answer.matcher) follow(record, *answer.matcher);
  ++totals_.generated_tokens;
  told.token = drawn.token;
  told.logprob = std::move(drawn.logprob);
  told.completion_tokens = static_cast<std::int64_t>(group.generated(s));
  const bool is_end = std::ranges::find(record.end_ids, drawn.token) != record.end_ids.end();
  if (is_end || (answer.matcher && answer.matcher->is_terminated())) {
    told.finish = FinishReason::kStop;
  } else if (s.tokens.size() >= group.limit) {
    told.finish = FinishReason::kLength;
  } else {
    return true;
  }
  end_answer(group, s);
  return false;
}

// The group lives on until the next step is made.
void EngineLoop::end_answer(SequenceGroup& group, Sequence& s) {
  const bool others = std::ranges::any_of(
      group.members, [&](const auto& other) { return other.get() != &s && !other->done; });
  if (others) {
    scheduler_.end(group, s);
  } else {
    let_go(group);
    s.done = true;
  }
}

// The scheduler forgets it, and its record keeps what is told of it at last.
void EngineLoop::let_go(SequenceGroup& group) {
  scheduler_.remove(group.id);
  group.record->preemptions = group.preemptions;
  group.record->pages = group.most_pages;
}

void EngineLoop::count_token(RequestRecord& record, AnswerRecord& answer, double time) {
  if (record.first_token < 0) record.first_token = time;
  ++record.generated;
  const double before = std::exchange(answer.last_token, time);
  if (before < 0) return;
  ++record.gaps;
  record.gap_sum += time - before;
  record.gap_max = std::max(record.gap_max, time - before);
}

// Answers whose text met a stop string while the next step ran.
void EngineLoop::end_by_text() {
  for (const auto& [id, index] : stopped_) {
    SequenceGroup* group = scheduler_.find(id);
    if (!group) continue;
    Sequence& s = *group->members[static_cast<std::size_t>(index)];
    if (!s.done) end_answer(*group, s);
  }
  stopped_.clear();
}

void EngineLoop::count_step(const ScheduledStep& step, double began) {
  StepStatistics& s = last_step_;
  s.tokens = step.batch.tokens();
  s.decode_tokens = step.decode_tokens;
  s.sequences = static_cast<std::int64_t>(step.entries.size());
  s.running = static_cast<std::int64_t>(scheduler_.running());
  s.waiting = static_cast<std::int64_t>(scheduler_.waiting());
  s.preempted = step.preempted;
  const KvCacheStatistics cache = scheduler_.cache().statistics();
  s.free_pages = cache.free_pages;
  s.kept_pages = cache.kept_pages;
  s.commit_seconds = now() - began - s.run_seconds;
  ++totals_.steps;
}

void EngineLoop::forget_pages() {
  check(!scheduler_.has_work(), "pages of running requests are theirs");
  scheduler_.forget_kept();
}

EngineStatistics EngineLoop::statistics() const {
  EngineStatistics s = totals_;
  const KvCacheStatistics cache = scheduler_.cache().statistics();
  s.preemptions = scheduler_.preemptions();
  s.running = static_cast<std::int64_t>(scheduler_.running());
  s.waiting = static_cast<std::int64_t>(scheduler_.waiting());
  s.pages = cache.pages;
  s.free_pages = cache.free_pages;
  s.kept_pages = cache.kept_pages;
  s.host_pages = cache.host_pages;
  s.host_used = cache.host_used;
  s.evictions = cache.evictions;
  s.pages_to_host = cache.to_host;
  s.pages_from_host = cache.from_host;
  return s;
}

}  // namespace ingot
