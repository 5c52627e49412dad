#include "grammar/compiler.h"

#include "base/check.h"
#include "grammar/ebnf_printer.h"
#include "grammar/grammar_cache.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace ingot {

using Outcome = Result<CompiledGrammarPtr>;

// One description on its way. Guarded by Shared::mutex but for `cancelled`.
struct GrammarJob {
  Grammar grammar;
  std::string key;
  std::atomic<bool> cancelled = false;
  int wanted = 0;  // PendingGrammars
  bool started = false;
  grammar::Deadline deadline;  // from the start
  std::optional<Outcome> outcome;
  std::vector<std::function<void()>> notify;
};

// Guarded by Shared::mutex but for `cancelled`; the matcher is its thread's.
struct MaskJob {
  MaskJob(GrammarMatcher copy, double most, std::function<void()> call)
      : matcher(std::move(copy)), seconds(most), notify(std::move(call)) {}

  GrammarMatcher matcher;
  double seconds;
  std::function<void()> notify;
  std::atomic<bool> cancelled = false;
  std::optional<PendingMasks::Outcome> outcome;
};

struct PendingGrammar::Shared {
  Shared(const Tokenizer& tokenizer, const GrammarVocabularyOptions& vocabulary_options,
         const GrammarCompilerOptions& compiler_options)
      : options(compiler_options),
        vocabulary(
            std::make_shared<const grammar::GrammarVocabulary>(tokenizer, vocabulary_options)),
        engine(vocabulary->tokens()),
        cache(compiler_options.cache_bytes) {}

  Outcome run(GrammarJob& job) const;
  void finish(GrammarJob& job, Outcome outcome);
  void work();
  void compile(std::unique_lock<std::mutex>& lock);
  void make_masks(std::unique_lock<std::mutex>& lock);
  void start_threads();
  void stop();
  void warm(const CompiledGrammarPtr& compiled);

  const GrammarCompilerOptions options;
  const std::shared_ptr<const grammar::GrammarVocabulary> vocabulary;
  const grammar::MaskEngine engine;

  std::mutex mutex;
  std::condition_variable work_came, job_done;
  std::deque<std::shared_ptr<GrammarJob>> waiting;
  std::deque<std::shared_ptr<MaskJob>> masks_waiting;
  bool masks_next = true;                                   // grammars and masks take turns
  std::map<std::string, std::shared_ptr<GrammarJob>> jobs;  // waiting or running, by key
  GrammarCache cache;
  std::int64_t hits = 0, misses = 0;
  int running = 0;
  std::atomic<bool> stopping = false;
  std::atomic<bool> hurry = false;  // work waits, or the end has come
  std::vector<std::thread> threads;
};

namespace {

Error too_slow(double seconds) {
  return {ErrorCode::kRequest,
          fmt::format("[guided.compile] not ready within {} s: make the grammar smaller", seconds)};
}

}  // namespace

Outcome PendingGrammar::Shared::run(GrammarJob& job) const {
  try {
    const auto rules = grammar::lower(job.grammar, options.limits, job.deadline);
    const std::string ebnf =
        grammar::print_ebnf(rules, fmt::format("guided.{}", to_string(job.grammar.kind)));
    job.deadline.check();
    auto machine = engine.compile(ebnf);
    job.deadline.check();
    return std::make_shared<const CompiledGrammar>(job.grammar, std::move(machine), vocabulary);
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kDoesNotFit, "[guided.compile] not enough memory");
  }
}

void PendingGrammar::Shared::finish(GrammarJob& job, Outcome outcome) {
  std::vector<std::function<void()>> notify;
  {
    const std::lock_guard lock(mutex);
    const auto it = jobs.find(job.key);
    if (it != jobs.end() && it->second.get() == &job) jobs.erase(it);
    // A refusal is the same next time; a cancelled or late compilation may not be.
    const bool lasting =
        outcome.ok() || !(job.cancelled || job.deadline.end() < grammar::Deadline::Clock::now());
    if (lasting) cache.insert(job.key, outcome);
    job.outcome = std::move(outcome);
    notify = std::move(job.notify);
  }
  job_done.notify_all();
  for (const auto& call : notify) call();
}

void PendingGrammar::Shared::warm(const CompiledGrammarPtr& compiled) {
  compiled->machine()->warm(
      {.seconds = options.warm_seconds, .stop = [this] { return hurry.load(); }});
}

void PendingGrammar::Shared::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    work_came.wait(lock, [&] { return stopping || !waiting.empty() || !masks_waiting.empty(); });
    if (stopping) return;
    ++running;
    if (masks_waiting.empty() || (!masks_next && !waiting.empty()))
      compile(lock);
    else
      make_masks(lock);
    --running;
  }
}

void PendingGrammar::Shared::compile(std::unique_lock<std::mutex>& lock) {
  const auto job = waiting.front();
  waiting.pop_front();
  masks_next = true;
  hurry = !waiting.empty() || !masks_waiting.empty();
  job->started = true;
  job->deadline = grammar::Deadline(options.limits.max_seconds, &job->cancelled);
  lock.unlock();
  Outcome outcome = run(*job);
  const CompiledGrammarPtr compiled = outcome.ok() ? *outcome : nullptr;
  finish(*job, std::move(outcome));
  if (compiled != nullptr) warm(compiled);
  lock.lock();
  if (compiled != nullptr) cache.measure(job->key);
}

void PendingGrammar::Shared::make_masks(std::unique_lock<std::mutex>& lock) {
  const auto job = masks_waiting.front();
  masks_waiting.pop_front();
  masks_next = false;
  hurry = !waiting.empty() || !masks_waiting.empty();
  lock.unlock();
  std::vector<std::uint32_t> mask(job->matcher.mask_words());
  grammar::MaskBudget budget{.seconds = job->seconds,
                             .stop = [this, &job] { return stopping || job->cancelled; }};
  PendingMasks::Outcome outcome;
  try {
    outcome.made = job->matcher.fill_mask(mask, budget).has_value();
  } catch (const Error&) {  // the sequence will meet it too, and say so
    outcome.made = true;
  }
  outcome.seconds = job->seconds - budget.seconds;
  std::function<void()> notify;
  lock.lock();
  job->outcome = outcome;
  notify = std::move(job->notify);
  lock.unlock();
  notify();
  lock.lock();
}

void PendingGrammar::Shared::start_threads() {
  for (int i = static_cast<int>(threads.size()); i < std::max(options.threads, 1); ++i)
    threads.emplace_back([this] { work(); });
}

void PendingGrammar::Shared::stop() {
  std::vector<std::shared_ptr<GrammarJob>> left;
  {
    const std::lock_guard lock(mutex);
    stopping = true;
    hurry = true;
    for (const auto& [key, job] : jobs) job->cancelled = true;
    left.assign(waiting.begin(), waiting.end());
    waiting.clear();
    masks_waiting.clear();
  }
  work_came.notify_all();
  for (std::thread& thread : threads) thread.join();
  for (const auto& job : left)
    finish(*job, Error(ErrorCode::kInterrupted, "[guided.compile] the compiler is closed"));
}

PendingGrammar& PendingGrammar::operator=(PendingGrammar&& other) noexcept {
  if (this != &other) {
    release();
    shared_ = std::move(other.shared_);
    job_ = std::move(other.job_);
  }
  return *this;
}

PendingGrammar::~PendingGrammar() {
  release();
}

void PendingGrammar::release() {
  if (job_ == nullptr) return;
  const auto shared = std::move(shared_);
  const auto job = std::move(job_);
  const std::lock_guard lock(shared->mutex);
  if (--job->wanted > 0 || job->outcome.has_value()) return;
  job->cancelled = true;
  shared->jobs.erase(job->key);
  std::erase(shared->waiting, job);
}

PendingMasks& PendingMasks::operator=(PendingMasks&& other) noexcept {
  if (this != &other) {
    release();
    shared_ = std::move(other.shared_);
    job_ = std::move(other.job_);
  }
  return *this;
}

PendingMasks::~PendingMasks() {
  release();
}

void PendingMasks::release() {
  if (job_ == nullptr) return;
  const auto shared = std::move(shared_);
  const auto job = std::move(job_);
  job->cancelled = true;
  const std::lock_guard lock(shared->mutex);
  std::erase(shared->masks_waiting, job);
}

bool PendingMasks::ready() const {
  check(job_ != nullptr, "PendingMasks that make_masks() gave");
  const std::lock_guard lock(shared_->mutex);
  return job_->outcome.has_value();
}

PendingMasks::Outcome PendingMasks::result() const {
  check(ready(), "masks that are made");
  const std::lock_guard lock(shared_->mutex);
  return *job_->outcome;
}

bool PendingGrammar::ready() const {
  check(job_ != nullptr, "a PendingGrammar that submit() gave");
  const std::lock_guard lock(shared_->mutex);
  return job_->outcome.has_value() ||
         (job_->started && grammar::Deadline::Clock::now() > job_->deadline.end());
}

Outcome PendingGrammar::result() const {
  check(job_ != nullptr, "a PendingGrammar that submit() gave");
  std::unique_lock lock(shared_->mutex);
  while (!job_->outcome.has_value()) {
    // A step of the compilation that cannot be stopped must not hold its caller.
    if (job_->started && grammar::Deadline::Clock::now() > job_->deadline.end())
      return too_slow(shared_->options.limits.max_seconds);
    shared_->job_done.wait_for(lock, std::chrono::milliseconds(100));
  }
  return *job_->outcome;
}

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer,
                                 const GrammarVocabularyOptions& vocabulary,
                                 const GrammarCompilerOptions& options)
    : shared_(std::make_shared<PendingGrammar::Shared>(tokenizer, vocabulary, options)) {}

GrammarCompiler::~GrammarCompiler() {
  shared_->stop();
}

PendingGrammar GrammarCompiler::submit(const Grammar& grammar, std::function<void()> notify) {
  PendingGrammar pending;
  pending.shared_ = shared_;
  const std::lock_guard lock(shared_->mutex);
  std::string key = grammar.key();
  if (const auto it = shared_->jobs.find(key); it != shared_->jobs.end()) {
    pending.job_ = it->second;
    ++pending.job_->wanted;
    if (notify) pending.job_->notify.push_back(std::move(notify));
    return pending;
  }
  pending.job_ = std::make_shared<GrammarJob>();
  GrammarJob& job = *pending.job_;
  job.wanted = 1;
  if (auto known = shared_->cache.find(key)) {
    ++shared_->hits;
    job.outcome = std::move(*known);
    return pending;
  }
  ++shared_->misses;
  if (static_cast<int>(shared_->waiting.size()) >= shared_->options.max_waiting) {
    job.outcome = Error(ErrorCode::kRequest,
                        fmt::format("[guided.compile] {} grammars wait to be compiled already; "
                                    "try again later",
                                    shared_->waiting.size()));
    return pending;
  }
  job.grammar = grammar;
  job.key = key;
  if (notify) job.notify.push_back(std::move(notify));
  shared_->jobs.emplace(std::move(key), pending.job_);
  shared_->waiting.push_back(pending.job_);
  shared_->hurry = true;
  shared_->start_threads();
  shared_->work_came.notify_one();
  return pending;
}

PendingMasks GrammarCompiler::make_masks(GrammarMatcher matcher, double seconds,
                                         std::function<void()> notify) {
  PendingMasks pending;
  pending.shared_ = shared_;
  pending.job_ = std::make_shared<MaskJob>(std::move(matcher), seconds, std::move(notify));
  const std::lock_guard lock(shared_->mutex);
  shared_->masks_waiting.push_back(pending.job_);
  shared_->hurry = true;
  shared_->start_threads();
  shared_->work_came.notify_one();
  return pending;
}

Outcome GrammarCompiler::compile(const Grammar& grammar) {
  return submit(grammar).result();
}

GrammarCompilerStatistics GrammarCompiler::statistics() const {
  const std::lock_guard lock(shared_->mutex);
  return {.hits = shared_->hits,
          .misses = shared_->misses,
          .cached = static_cast<std::int64_t>(shared_->cache.size()),
          .cached_bytes = shared_->cache.bytes(),
          .waiting = static_cast<int>(shared_->waiting.size()),
          .running = shared_->running};
}

}  // namespace ingot
