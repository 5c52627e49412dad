#include "tests/llm/random_rounds.h"

#include "base/error.h"
#include "base/log.h"
#include "llm/engine_over.h"
#include "llm/model.h"

#include "tests/llm/random_requests.h"
#include "tests/runtime/bigram_model.h"
#include <random>
#include <utility>

namespace ingot::test {

namespace {

// Callbacks throw on purpose, and each says so.
class QuietLog {
 public:
  QuietLog() { set_log_level(LogLevel::kOff); }
  ~QuietLog() { set_log_level(before_); }

 private:
  LogLevel before_ = log_level();
};

RoundResult result(const char* what, unsigned seed, const UseReport& r) {
  return {.text = fmt::format("{} seed {}: {} submitted, {} refused; read to the end: {} finished, "
                              "{} cancelled, {} expired, {} failed",
                              what, seed, r.submitted, r.refused, r.finished, r.cancelled,
                              r.expired, r.failed),
          .wrong = r.wrong};
}

// A model under a loop of our own, whose books are checked after each step: everybody with a
// grammar sits out for each new mask.
RoundResult loop_round(unsigned seed, double seconds, const std::filesystem::path& checkpoint) {
  std::mt19937 random(seed);
  OpenOptions open;
  open.device = "cpu";
  open.threads = 2;
  open.sequences = 4;
  open.build.max_batch = 4;
  open.build.max_seq = 64;
  const auto model = Model::open(checkpoint, open);
  EngineLoop::Options options{.policy = static_cast<SchedulerPolicy>(random() % 3),
                              .overlap = random() % 3 != 0,
                              .mask_seconds_of_step = 0};
  options.grammars.warm_seconds = 0;
  EngineLoop loop(model->executor(), model->info(), &model->tokenizer(), options);
  LastEvents last_events;
  EngineThread::Options thread;
  thread.on_stall = [](const std::string&) {};
  thread.on_last = [&](const OutputEvent& last) { last_events.told(last); };
  thread.on_step = [&](const StepStatistics&) { loop.scheduler().check_integrity(); };
  EngineUnderTest under_test{.engine = EngineOver::loop(loop, std::move(thread)),
                             .vocab = 320,
                             .max_seq = 64,
                             .watched = true};
  return result("loop", seed,
                use_at_random(under_test, last_events, {.seed = seed, .seconds = seconds}));
}

}  // namespace

RoundResult mock_round(unsigned seed, double seconds) {
  const QuietLog quiet;
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  BigramModel::Script script{.poisoned = {5}, .end_ids = {1}, .max_seq = 48, .loop = {}};
  for (std::int32_t i = 0; i < BigramModel::kVocab; ++i)
    script.next[i] = static_cast<std::int32_t>((i * 7 + 3) % BigramModel::kVocab);
  script.max_batch = 2 + below(5);
  script.kv_pages = 12 + below(30);
  script.host_pages = below(2) == 0 ? below(20) : 0;
  script.loop.policy = static_cast<SchedulerPolicy>(below(3));
  script.loop.overlap = below(3) != 0;
  BigramModel model(std::move(script), nullptr);
  std::mt19937 faults(seed + 1);
  if (below(2) == 0)
    model.before_step = [&faults] {
      if (faults() % 40 == 0) fail(ErrorCode::kDevice, "[device] a step that fails");
    };
  LastEvents last_events;
  EngineThread::Options options;
  options.on_stall = [](const std::string&) {};
  options.on_last = [&](const OutputEvent& last) { last_events.told(last); };
  options.on_step = [&](const StepStatistics&) { model.loop().scheduler().check_integrity(); };
  EngineUnderTest under_test{.engine = EngineOver::loop(model.loop(), std::move(options)),
                             .vocab = BigramModel::kVocab,
                             .max_seq = 48,
                             .watched = true};
  return result("mock", seed,
                use_at_random(under_test, last_events, {.seed = seed, .seconds = seconds}));
}

RoundResult model_round(unsigned seed, double seconds, const std::filesystem::path& checkpoint) {
  const QuietLog quiet;
  std::mt19937 random(seed);
  if (random() % 2 == 0) return loop_round(seed, seconds, checkpoint);
  EngineOptions options{.device = "cpu", .threads = 2, .max_batch = 4, .max_seq = 64};
  options.policy = static_cast<SchedulerPolicy>(random() % 3);
  if (random() % 2 == 0) options.host_memory = std::uint64_t{1} << 20;
  LastEvents last_events;
  EngineUnderTest under_test{
      .engine = Engine::open(checkpoint, options), .vocab = 320, .max_seq = 64};
  return result("model", seed,
                use_at_random(under_test, last_events, {.seed = seed, .seconds = seconds}));
}

}  // namespace ingot::test
