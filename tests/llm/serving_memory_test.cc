// After start-up nothing is allocated on the way of a token: nothing of the device by anybody, and
// of the host only what an event carries away.
#include "cpu/device.h"
#include "grammar/mask_machine.h"
#include "llm/model.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/ops/forwarding_device.h"
#include "tests/runtime/allocation_count.h"
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>
#include <stdexcept>
#include <thread>

namespace ingot {
namespace {

namespace fs = std::filesystem;

// The CPU, which counts what it is asked for.
class CountingDevice final : public test::ForwardingDevice {
 public:
  CountingDevice() : ForwardingDevice(make_cpu_device({.threads = 2})) {}
  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    ++taken;
    return ForwardingDevice::allocate(bytes, purpose);
  }
  std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) override {
    ++taken;
    return ForwardingDevice::allocate_host(bytes, purpose);
  }
  std::unique_ptr<Buffer> place_weights(std::span<const std::byte> mapped,
                                        const std::function<void(std::size_t)>& done) override {
    ++taken;
    return ForwardingDevice::place_weights(mapped, done);
  }
  std::unique_ptr<Stream> make_stream() override {
    ++taken;
    return ForwardingDevice::make_stream();
  }
  std::atomic<int> taken = 0;
};

struct Setting {
  std::string model = "llama";
  std::string kv_cache = "auto";
  std::int64_t kv_pages = 64;
  std::int64_t host_pages = 0;
  EngineLoop::Options loop{};
};

// Pieces of memory that an event owns.
std::uint64_t pieces_of(const std::string& text) {
  return text.capacity() > std::string().capacity() ? 1 : 0;
}
std::uint64_t pieces_of(const std::vector<TokenLogprob>& logprobs) {
  std::uint64_t pieces = logprobs.capacity() > 0;
  for (const TokenLogprob& logprob : logprobs) pieces += logprob.top.capacity() > 0;
  return pieces;
}
std::uint64_t pieces_of(const OutputEvent& event) {
  return pieces_of(event.text) + (event.tokens.capacity() > 0) + pieces_of(event.logprobs) +
         pieces_of(event.prompt_logprobs) + pieces_of(event.error);
}

// Threads of earlier tests, such as a check of weights that an idle priority holds up, would be
// counted too.
struct AloneInTheProcess {
  AloneInTheProcess() {
    const auto threads = [] {
      return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (threads() > 1 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(threads(), 1) << "threads of other tests never end";
  }
};

// A tiny model on the counting device.
class Served {
 public:
  static constexpr std::int64_t kSequences = 6;
  static constexpr std::int64_t kLongest = 512;
  static constexpr std::int64_t kStepTokens = 48;

  explicit Served(const Setting& setting) {
    test::EditedCheckpoint checkpoint(fs::path(INGOT_FIXTURES) / "models" / setting.model);
    checkpoint.config()["max_position_embeddings"] = kLongest;
    OpenOptions o;
    o.device = "cpu";
    o.build.kv_cache = setting.kv_cache;
    o.build.max_batch = kSequences;
    o.build.max_tokens = kStepTokens;
    model_ = Model::open(checkpoint.save(), o);
    model_->background_check().wait();
    executor_ = std::make_unique<Executor>(
        model_->plan(), device_, model_->file().blob("weights"),
        prepare_kernels(model_->plan(), device_, {}),
        Executor::Options{.kv_pages = setting.kv_pages, .host_pages = setting.host_pages});
    const Tokenizer* tokenizer = model_->has_tokenizer() ? &model_->tokenizer() : nullptr;
    loop_ = std::make_unique<EngineLoop>(*executor_, model_->info(), tokenizer, setting.loop);
    at_start_ = device_.taken;
  }

  EngineLoop& loop() { return *loop_; }
  int taken_at_start() const { return at_start_; }
  int taken_since() const { return device_.taken - at_start_; }

  // What a step took of the host's memory, in pieces.
  struct Taken {
    std::int64_t unowned = 0;  // by all threads, beyond what its events own
    std::int64_t aside = 0;    // by other threads than this one
  };
  Taken step() {
    std::uint64_t owned = 0;
    const EngineLoop::EventSink sink = [&](OutputEvent&& event) {
      owned += pieces_of(event);
      ++events_;
      const OutputEvent dropped = std::move(event);
    };
    const std::uint64_t all = test::allocations_of_all_threads(), own = test::allocations();
    loop_->step(sink);
    const std::uint64_t by_all = test::allocations_of_all_threads() - all;
    return {.unowned = static_cast<std::int64_t>(by_all - owned),
            .aside = static_cast<std::int64_t>(by_all - (test::allocations() - own))};
  }
  std::int64_t events() const { return events_; }

 private:
  AloneInTheProcess alone_;  // before any thread of its own
  test::OwnCache cache_;
  std::unique_ptr<Model> model_;
  CountingDevice device_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<EngineLoop> loop_;
  int at_start_ = 0;
  std::int64_t events_ = 0;
};

constexpr std::int32_t kAnswer = 150;  // over several pages of 64 tokens

Request request(std::size_t prompt, unsigned seed, const SamplingParams& sampling) {
  std::mt19937 random(seed);
  Request r{.sampling = sampling};
  r.prompt.resize(prompt);
  for (std::int32_t& id : r.prompt) id = static_cast<std::int32_t>(5 + random() % 100);
  r.sampling.seed = seed;
  r.sampling.ignore_eos = true;
  r.sampling.max_tokens = kAnswer;
  return r;
}

const SamplingParams kEveryPenalty{.temperature = 0.9,
                                   .top_p = 0.95,
                                   .top_p_decay = 0.99,
                                   .top_p_min = 0.5,
                                   .repetition_penalty = 1.1,
                                   .presence_penalty = 0.2,
                                   .frequency_penalty = 0.1,
                                   .no_repeat_ngram_size = 4,
                                   .logit_bias = {{7, 1.0}, {9, -2.0}},
                                   .bad_token_ids = {{11}, {12, 13}}};

struct Case {
  std::string name;
  SamplingParams sampling;
  Setting setting{};
  LogitsCallback callback{};
  int steps_that_take = 0;  // each request once, when its answers part
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class ServingMemoryTest : public testing::TestWithParam<Case> {
 protected:
};

// Prompts read in chunks, alone and beside decodes; decodes alone; ends.
TEST_P(ServingMemoryTest, AStepTakesWhatItsEventsCarryAway) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer's build does not count";
  const Case& c = GetParam();
  Served served(c.setting);
  EXPECT_GE(served.taken_at_start(), 4) << "the device counts nothing";
  const auto submit = [&](std::size_t prompt, unsigned seed) {
    Request r = request(prompt, seed, c.sampling);
    r.change_logits = c.callback;
    served.loop().submit(std::move(r)).value_or_throw();
  };
  submit(40, 1);
  submit(90, 2);
  int taking = 0;
  for (int step = 0; served.loop().has_work(); ++step) {
    if (step == 20) submit(200, 3);
    const std::int64_t unowned = served.step().unowned;
    EXPECT_TRUE(unowned == 0 || c.steps_that_take > 0) << unowned << " in step " << step;
    taking += unowned > 0;
  }
  EXPECT_EQ(taking, c.steps_that_take);
  EXPECT_GE(served.events(), c.sampling.stop.empty() ? 3 * kAnswer : 3);
  EXPECT_EQ(served.taken_since(), 0);
}

SamplingParams with(SamplingParams sampling, const std::function<void(SamplingParams&)>& change) {
  change(sampling);
  return sampling;
}

const SamplingParams kGreedy{.temperature = 0};

INSTANTIATE_TEST_SUITE_P(
    , ServingMemoryTest,
    testing::Values(
        Case{"greedy", kGreedy}, Case{"without_overlap", kGreedy, {.loop = {.overlap = false}}},
        Case{"every_penalty", kEveryPenalty},
        Case{"top_k", {.temperature = 0.8, .top_k = 20, .top_p = 0.9, .min_p = 0.01}},
        Case{"typical_p", {.temperature = 1.5, .typical_p = 0.9}},
        // With overlap they are made in one step and go out in the next.
        Case{"logprobs", {.temperature = 1, .logprobs = 5}, {.loop = {.overlap = false}}},
        Case{"stop_strings", {.temperature = 1, .stop = {"never, ever, in no case", "\x01\x02"}}},
        Case{"min_tokens", {.temperature = 1, .min_tokens = kAnswer, .stop_token_ids = {3, 4}}},
        Case{"stop_strings_that_come", {.temperature = 1, .stop = {"e", "a"}}},
        Case{"two_answers", with(kEveryPenalty, [](SamplingParams& p) { p.n = 2; }), {}, {}, 3},
        Case{"callback", kGreedy, {}, [](const LogitsView& view) { view.logits[3] += 1; }},
        Case{"int8", kGreedy, {.kv_cache = "int8"}}, Case{"fp8", kGreedy, {.kv_cache = "fp8"}},
        Case{"window", kGreedy, {.model = "mistral"}},
        Case{"drafts", kGreedy, {.loop = {.draft_tokens = 4}}},
        Case{"drafts_every_penalty", kEveryPenalty, {.loop = {.draft_tokens = 4}}},
        Case{"drafts_callback",
             kGreedy,
             {.loop = {.draft_tokens = 4}},
             [](const LogitsView& view) { view.logits[3] += 1; }}),
    [](const auto& info) { return info.param.name; });

// The pool holds one of three answers to its end: they are paused, and their pages go to host
// memory and come back.
TEST(ServingMemory, PausesTakeNothing) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer's build does not count";
  Served served({.kv_pages = 5, .host_pages = 8});
  for (const unsigned seed : {1U, 2U, 3U})
    served.loop().submit(request(60, seed, kEveryPenalty)).value_or_throw();
  for (int step = 0; served.loop().has_work(); ++step)
    EXPECT_EQ(served.step().unowned, 0) << "step " << step;
  const EngineStatistics statistics = served.loop().statistics();
  EXPECT_GE(statistics.preemptions, 2);
  EXPECT_GE(statistics.pages_to_host, 2);
  EXPECT_GE(statistics.pages_from_host, 2);
  EXPECT_EQ(served.taken_since(), 0);
}

// What follows a grammar takes memory as it pleases; the step itself does not.
TEST(ServingMemory, AGrammarTakesNothingOfTheStep) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer's build does not count";
  if (!grammar::MaskEngine::available()) GTEST_SKIP() << "built with -DINGOT_GRAMMAR=OFF";
  Served served({});
  const auto submit = [&](const SamplingParams& sampling, GuidedDecoding guided) {
    Request r = request(40, 1, sampling);
    r.guided = std::move(guided);
    served.loop().submit(std::move(r)).value_or_throw();
  };
  submit({.temperature = 1}, {.kind = GuidedKind::kRegex, .text = "([a-z]{2} ){200}"});
  while (served.events() == 0) served.step();  // until it is ready
  submit(kEveryPenalty, {});
  for (int step = 0; served.loop().has_work(); ++step)
    EXPECT_EQ(served.step().aside, 0) << "step " << step;
  EXPECT_EQ(served.taken_since(), 0);
}

// A request of every kind, by its number. Beams are not guessed.
Request any_request(unsigned number, std::mt19937& random, bool beams) {
  SamplingParams p = number % 3 == 0 ? kEveryPenalty : SamplingParams{};
  p.n = static_cast<std::int32_t>(1 + random() % 3);
  if (number % 4 == 0) p.best_of = p.n + 1;
  if (number % 5 == 0) p.logprobs = 3;
  if (number % 6 == 0) p.prompt_logprobs = 2;
  if (beams && number % 4 == 1) p = {.beam_width = 3};
  Request r = request(1 + random() % 150, number, p);
  r.sampling.max_tokens = static_cast<std::int32_t>(1 + random() % 60);
  if (number % 7 == 0) r.deadline = 1e-3;
  if (number % 8 == 0) r.share_cache = false;
  if (number % 9 == 0 && grammar::MaskEngine::available())
    r.guided = {.kind = GuidedKind::kRegex, .text = "[0-9]{3}(-[a-c]+)?"};
  if (number % 11 == 0)
    r.change_logits = [](const LogitsView&) { throw std::runtime_error("it does not like it"); };
  return r;
}

// Whatever comes, the device is asked for nothing.
TEST(ServingMemory, NoTrafficAsksTheDevice) {
  for (const int drafts : {0, 3}) {
    Served served({.kv_pages = 11, .host_pages = 6, .loop = {.draft_tokens = drafts}});
    EXPECT_GE(served.taken_at_start(), 4) << "the device counts nothing";
    std::mt19937 random(7);
    for (unsigned i = 0; i < 60; ++i) {
      const RequestId id =
          served.loop().submit(any_request(i, random, drafts == 0)).value_or_throw();
      for (unsigned steps = random() % 6; steps > 0; --steps) served.step();
      if (i % 10 == 0) served.loop().cancel(id);
    }
    while (served.loop().has_work()) served.step();
    const EngineStatistics statistics = served.loop().statistics();
    EXPECT_GE(statistics.preemptions, 1);
    EXPECT_GE(statistics.pages_to_host, 1);
    EXPECT_GE(statistics.finished, 20);
    EXPECT_GE(statistics.failed, 1);
    EXPECT_GE(statistics.cancelled, 1);
    EXPECT_GE(statistics.expired, 1);
    EXPECT_EQ(statistics.drafted_tokens > 0, drafts > 0);
    EXPECT_EQ(served.taken_since(), 0);
  }
}

}  // namespace
}  // namespace ingot
