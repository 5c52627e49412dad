#include "tests/llm/promise_player.h"

#include "base/error.h"
#include "grammar/mask_machine.h"
#include "plan/kv_reach.h"
#include "runtime/draft_model.h"
#include "runtime/executor.h"

#include <fmt/ranges.h>

#include "tests/llm/whole_answers.h"
#include <algorithm>
#include <optional>
#include <utility>

namespace ingot::test {

namespace {

constexpr int kMostSteps = 20000;
constexpr std::int32_t kGuesses = 4;       // at once
constexpr std::int64_t kGuessedFor = 3;    // sequences that the model that guesses has room for
constexpr std::int64_t kAnswersAlone = 4;  // of a request, at most

// An answer to every text is the same function of it, and so are these logits.
void favour_a_token(const LogitsView& view) {
  const auto mixed = view.tokens.size() * 7 + static_cast<std::size_t>(view.tokens.back()) * 13;
  view.logits[mixed % view.logits.size()] += 4;
}

std::int32_t width_of(const SamplingParams& p) {
  return std::max({p.n, p.best_of, p.beam_width});
}

}  // namespace

// A loop of a condition's size over a model that is open.
class PromisePlayer::Stage {
 public:
  Stage(Model& model, const Conditions& c, DraftModel* guesser)
      : plan_(smaller(model.plan(), c)),
        executor_(plan_, model.device(), model.file().blob("weights"),
                  prepare_kernels(plan_, model.device(), {}),
                  {.kv_pages = c.pages, .host_pages = c.host_pages, .progress = {}}),
        loop_(executor_, model.info(), model.has_tokenizer() ? &model.tokenizer() : nullptr,
              {.policy = c.policy,
               .overlap = c.overlap,
               .draft_tokens = c.guesser == Guesser::kNgram ? kGuesses : 0,
               .draft_model = guesser}) {}

  EngineLoop& loop() { return loop_; }

  // Offsets of a plan hold for every step below its maxima.
  static Plan smaller(Plan plan, const Conditions& c) {
    const auto cap = [&](Symbol s, std::int64_t most) {
      plan.max[s] = std::clamp<std::int64_t>(most, 1, plan.max[s]);
    };
    cap(Symbol::kSequences, c.sequences);
    cap(Symbol::kTokens, std::max(c.step_tokens, plan.max[Symbol::kSequences]));
    cap(Symbol::kRows, c.head_rows);
    return plan;
  }

 private:
  Plan plan_;
  Executor executor_;
  EngineLoop loop_;
};

// A request, when it comes and goes, and what it is given alone.
struct PromisePlayer::Part {
  Request request;
  int arrives = 0;
  int cancelled = 0;
  std::size_t turn_before = 0;  // tokens of the prompt that it continues
  std::string refusal;
  std::vector<OutputEvent> wanted;
};

struct PromisePlayer::Played {
  std::string wrong;
  std::vector<RequestId> ids;  // by part; 0: refused
  std::vector<std::string> refusals;
  WholeAnswers answers;
  EngineStatistics statistics;
  std::int64_t several = 0;     // steps of several sequences
  std::int64_t not_decode = 0;  // tokens computed that no answer waited for
};

PromisePlayer::PromisePlayer(PromiseSubject subject, PromiseCounts& counts)
    : subject_(std::move(subject)), counts_(counts) {}

PromisePlayer::~PromisePlayer() = default;

std::unique_ptr<Model> PromisePlayer::open(const std::string& kv_cache, ComputeMode mode,
                                           int threads, std::int64_t sequences) const {
  OpenOptions o;
  o.device = "cpu";
  o.threads = threads;
  o.sequences = sequences;
  o.build.mode = mode;
  o.build.quant = subject_.quant;
  o.build.kv_cache = kv_cache;
  o.build.attention_window = subject_.window;
  o.build.sink_tokens = subject_.sink_tokens;
  o.build.max_seq = subject_.max_seq;
  return Model::open(subject_.path, o);
}

Model& PromisePlayer::model(int threads) {
  std::unique_ptr<Model>& model = models_[threads];
  if (!model) model = open(subject_.kv_cache, subject_.mode, threads, 1);
  return *model;
}

CaseLimits PromisePlayer::limits() {
  Model& m = model(1);
  return {.vocab = static_cast<std::int32_t>(m.info().vocab),
          .page_tokens = m.plan().page_tokens,
          .guided = m.has_tokenizer() && grammar::MaskEngine::available() ? 6 : 0,
          .has_tokenizer = m.has_tokenizer()};
}

Model& PromisePlayer::guesser() {
  if (!guesser_) guesser_ = open(subject_.guesser_kv_cache, ComputeMode::kNative, 1, kGuessedFor);
  return *guesser_;
}

Request PromisePlayer::request_of(const PromisedRequest& r, const Part* before) const {
  Request request{.prompt = {},
                  .sampling = r.sampling,
                  .change_logits = {},
                  .guided = {.kind = r.guided, .text = r.description, .choices = {}},
                  .priority = r.priority,
                  .cache_salt = r.salt,
                  .share_cache = r.share_cache};
  if (r.changes_logits) request.change_logits = favour_a_token;
  const auto append = [&](int from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      request.prompt.push_back(
          subject_.text[static_cast<std::size_t>(from + i) % subject_.text.size()]);
  };
  if (r.continues && before) {
    request.prompt = before->request.prompt;
    if (!before->wanted.empty())
      request.prompt.insert(request.prompt.end(), before->wanted[0].tokens.begin(),
                            before->wanted[0].tokens.end());
  } else {
    append(1009 * r.family, r.common);
  }
  append(1009 * r.family + 211 * r.text, r.own);
  return request;
}

// The smallest pool that holds each of the requests, alone.
std::int64_t PromisePlayer::pages_for(std::span<const Part> parts, SchedulerLimits limits) const {
  const auto max_seq = static_cast<std::size_t>(subject_.max_seq);
  const auto holds = [&](const Scheduler& scheduler, const Part& part) {
    const SamplingParams& p = part.request.sampling;
    const std::size_t prompt = part.request.prompt.size();
    const std::size_t limit =
        p.max_tokens == 0 ? max_seq
                          : std::min(max_seq, prompt + static_cast<std::size_t>(p.max_tokens));
    return !part.refusal.empty() || scheduler.fits(prompt, limit, width_of(p));
  };
  for (limits.kv_pages = 1;; ++limits.kv_pages)
    if (const Scheduler scheduler(limits);
        std::ranges::all_of(parts, [&](const Part& part) { return holds(scheduler, part); }))
      return limits.kv_pages;
}

PromisePlayer::Played PromisePlayer::run(EngineLoop& loop, std::span<const Part> parts) {
  Played played;
  played.ids.resize(parts.size());
  played.refusals.resize(parts.size());
  std::int64_t steps = loop.statistics().steps;
  const auto step_on = [&] {
    loop.step([&](OutputEvent&& event) { played.answers.take(std::move(event)); });
    loop.scheduler().check_integrity();
    const StepStatistics& step = loop.last_step();
    if (std::exchange(steps, step.step) == step.step) return;  // there was none
    played.several += step.sequences > 1;
    played.not_decode += step.tokens - step.decode_tokens;
  };
  for (int now = 0;; ++now) {
    bool more = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      more |= part.arrives > now;
      if (part.arrives == now) {
        const Result<RequestId> id = loop.submit(part.request);
        id ? played.ids[i] = *id : (played.refusals[i] = id.error().message(), 0);
      }
      if (part.cancelled > 0 && now == part.arrives + part.cancelled) loop.cancel(played.ids[i]);
    }
    if (!more && !loop.has_work()) break;
    if (now == kMostSteps) {
      played.wrong = "requests that never end";
      return played;
    }
    step_on();
  }
  played.statistics = loop.statistics();
  played.wrong = played.answers.wrong();
  if (loop.scheduler().cache().available() != loop.scheduler().cache().capacity())
    played.wrong = "pages are lost";
  return played;
}

PromisePlayer::Played PromisePlayer::run_together(Conditions c, std::span<const Part> parts) {
  for (const Part& part : parts)
    c.sequences = std::max<std::int64_t>(c.sequences, width_of(part.request.sampling));
  Model& m = model(c.threads);
  const Plan plan = Stage::smaller(m.plan(), c);
  c.pages = std::max(c.pages, pages_for(parts, {.max_tokens = plan.max[Symbol::kTokens],
                                                .max_sequences = plan.max[Symbol::kSequences],
                                                .max_pages = plan.max[Symbol::kPages],
                                                .page_tokens = plan.page_tokens,
                                                .reach = kv_reach(plan)}));
  std::optional<DraftModel> draft;
  if (c.guesser == Guesser::kModel)
    draft.emplace(guesser().executor(), guesser().info(), static_cast<std::size_t>(kGuesses));
  Stage stage(m, c, draft ? &*draft : nullptr);
  Played played = run(stage.loop(), parts);
  if (draft) draft->check_integrity();
  return played;
}

std::string PromisePlayer::compare(const Conditions& c, const Part& part, const Played& played,
                                   std::size_t i) {
  const SamplingParams& p = part.request.sampling;
  const std::string& refusal = played.refusals[i];
  if (!refusal.empty() && p.beam_width > 1 && c.guesser != Guesser::kNone) {
    ++counts_.refused;
    return {};
  }
  const std::vector<OutputEvent>& got = played.answers.of(played.ids[i]);
  // A grammar that cannot be is known at once or later.
  const auto refused = [](const std::string& at_once, const std::vector<OutputEvent>& answers) {
    return at_once.empty() && !answers.empty() ? answers[0].error : at_once;
  };
  if (!refusal.empty() || !part.refusal.empty()) {
    const std::string now = refused(refusal, got), alone = refused(part.refusal, part.wanted);
    return now == alone ? "" : fmt::format("refused: '{}', alone '{}'", now, alone);
  }
  if (!played.answers.ended(played.ids[i])) return "it was told no end";
  const bool cancelled = got.back().finish == FinishReason::kCancelled;
  counts_.cancelled += cancelled;
  // Of answers that are compared with each other nobody knows the best before all have ended.
  if (cancelled && (p.beam_width > 1 || p.best_of > p.n)) return {};
  if (got.size() != part.wanted.size())
    return fmt::format("{} answers in place of {}", got.size(), part.wanted.size());
  for (std::size_t a = 0; a < got.size(); ++a) {
    const bool beginning = got[a].finish == FinishReason::kCancelled;
    if (std::string wrong = difference(part.wanted[a], got[a], beginning); !wrong.empty())
      return fmt::format("answer {}, {}", a, wrong);
    ++counts_.answers;
    counts_.tokens += std::ssize(got[a].tokens);
    counts_.guided += part.request.guided.kind != GuidedKind::kNone && got[a].error.empty();
    counts_.searches += p.beam_width > 1;
  }
  return {};
}

void PromisePlayer::count(const Conditions& c, std::span<const Part> parts, const Played& played) {
  const EngineStatistics& s = played.statistics;
  std::int64_t to_read = 0;
  bool searches = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SamplingParams& p = parts[i].request.sampling;
    searches |= p.beam_width > 1;
    for (const OutputEvent& e : played.answers.of(played.ids[i])) {
      if (!e.last) continue;
      const std::int64_t cached = e.statistics.cached_tokens;
      const std::int64_t left = e.statistics.prompt_tokens - cached;
      to_read += left;
      counts_.in_chunks += left > std::max(c.step_tokens, c.sequences);
      counts_.hits += cached > 0;
      counts_.answer_hits +=
          parts[i].turn_before > 0 && cached > static_cast<std::int64_t>(parts[i].turn_before);
    }
  }
  ++counts_.cases;
  counts_.several += played.several;
  counts_.preemptions += s.preemptions;
  // Guesses, and beams that wait for each other, are computed without being waited for.
  if (c.guesser == Guesser::kNone && !searches)
    counts_.replayed += std::max<std::int64_t>(0, played.not_decode - to_read);
  counts_.to_host += s.pages_to_host;
  counts_.from_host += s.pages_from_host;
  const std::int64_t failed = s.drafted_tokens - s.accepted_drafts;
  if (c.guesser == Guesser::kNgram) {
    counts_.ngram_held += s.accepted_drafts;
    counts_.ngram_failed += failed;
  } else if (c.guesser == Guesser::kModel) {
    counts_.model_held += s.accepted_drafts;
    counts_.model_failed += failed;
  }
  counts_.threaded += c.threads > 1;
}

// What a request is given alone: of a loop whose cache knows nothing.
const PromisePlayer::Part& PromisePlayer::alone(const PromisedRequest& r, const Part* before) {
  Part part{.request = request_of(r, before)};
  PromisedRequest asked = r;
  asked.arrives = asked.cancelled = asked.priority = 0;
  const std::string key =
      fmt::format("{} {}", to_string(PromiseCase{.requests = {asked}}), part.request.prompt);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  if (!alone_) {
    const std::int64_t pages = kAnswersAlone * model(1).plan().max[Symbol::kPages];
    alone_ =
        std::make_unique<Stage>(model(1), Conditions{.pages = pages, .overlap = false}, nullptr);
  }
  alone_->loop().forget_pages();
  const Played played = run(alone_->loop(), {&part, 1});
  if (!played.wrong.empty()) fail(ErrorCode::kBug, "alone: {}", played.wrong);
  part.refusal = played.refusals[0];
  part.wanted = played.answers.of(played.ids[0]);
  return known_.emplace(key, std::move(part)).first->second;
}

std::string PromisePlayer::play(const PromiseCase& c) {
  try {
    std::vector<Part> parts;
    for (const PromisedRequest& r : c.requests) {
      const Part* before = parts.empty() ? nullptr : &parts.back();
      Part part = alone(r, before);
      if (r.continues && before) part.turn_before = before->request.prompt.size();
      part.arrives = r.arrives;
      part.cancelled = r.cancelled;
      parts.push_back(std::move(part));
    }
    const Played together = run_together(c.conditions, parts);
    if (!together.wrong.empty()) return together.wrong;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (std::string wrong = compare(c.conditions, parts[i], together, i); !wrong.empty())
        return fmt::format("request {}: {}", i, wrong);
    count(c.conditions, parts, together);
    return {};
  } catch (const Error& e) {
    alone_.reset();  // it may have stopped anywhere
    return "thrown: " + e.message();
  }
}

std::string to_string(const PromiseCounts& n) {
  return fmt::format(
      "{} cases, {} answers of {} tokens; {} steps of several sequences, {} prompts in chunks, {} "
      "from the cache ({} of them from answers); {} pauses, {} tokens replayed, {} pages to the "
      "host, {} back; guesses held and failed: {} and {} of n-grams, {} and {} of a model; {} "
      "guided, {} of searches, {} refused, {} cancelled, {} cases with threads",
      n.cases, n.answers, n.tokens, n.several, n.in_chunks, n.hits, n.answer_hits, n.preemptions,
      n.replayed, n.to_host, n.from_host, n.ngram_held, n.ngram_failed, n.model_held,
      n.model_failed, n.guided, n.searches, n.refused, n.cancelled, n.threaded);
}

}  // namespace ingot::test
