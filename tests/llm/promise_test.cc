// The promise: a request gives the same bits alone and in any batch, however its prompt is chunked,
// with pages cold or from the cache, paused and resumed, guessed ahead or not, on any number of
// threads, in every precision of the KV cache. Random cases that are shrunk when they fail.
//   INGOT_PROMISE_TIMES=N  so many times as many cases
//   INGOT_PROMISE_SEED=N   the seed of the first
#include "base/file.h"
#include "base/json.h"
#include "llm/resolve.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/llm/long_model.h"
#include "tests/llm/promise_player.h"
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using test::CaseLimits;
using test::Guesser;
using test::PromiseCase;
using test::PromiseCounts;
using test::PromisedRequest;
using test::PromisePlayer;
using test::PromiseSubject;

// As they are before a test has a cache of its own.
const fs::path kFetched = cache_folder() / "models";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSlower = 10;
#else
constexpr unsigned kSlower = 1;
#endif
constexpr int kShrinkTrials = 600;

unsigned number_of(const char* variable, unsigned otherwise) {
  const char* value = std::getenv(variable);
  return value && *value ? static_cast<unsigned>(std::strtoul(value, nullptr, 10)) : otherwise;
}

PromisedRequest asked(std::int64_t common, std::int64_t own, int text) {
  return {.common = common,
          .own = own,
          .text = text,
          .sampling = {
              .temperature = 0, .seed = 0, .max_tokens = 12, .ignore_eos = true, .logprobs = 1}};
}

// Whatever chance leaves out: every kind of condition at least once.
std::vector<PromiseCase> sure_cases() {
  PromiseCase chat{.conditions = {.step_tokens = 32},
                   .requests = {asked(64, 3, 1), asked(64, 55, 3), asked(0, 4, 5)}};
  chat.requests[1].arrives = 8;
  chat.requests[2].arrives = 40;
  chat.requests[2].continues = true;
  // A page each, until all three want another.
  PromiseCase paused{.conditions = {.pages = 3, .threads = 2},
                     .requests = {asked(32, 30, 1), asked(32, 30, 2), asked(32, 30, 3)}};
  PromiseCase swapped = paused;
  swapped.conditions.host_pages = 6;
  swapped.conditions.threads = 3;
  const PromiseCase looked_up{.conditions = {.guesser = Guesser::kNgram},
                              .requests = {asked(40, 20, 0), asked(5, 20, 2)}};
  PromiseCase guessed{.conditions = {.guesser = Guesser::kModel},
                      .requests = {asked(0, 20, 1), asked(0, 20, 2)}};
  guessed.requests[1].changes_logits = true;  // which the model that guesses is not told
  return {chat, paused, swapped, looked_up, guessed};
}

class PromiseTest : public testing::TestWithParam<std::pair<std::string, ComputeMode>> {
 protected:
  static PromiseSubject subject() {
    const auto& [kv_cache, mode] = GetParam();
    return {.path = {},
            .mode = mode,
            .kv_cache = kv_cache,
            .guesser_kv_cache = kv_cache == "fp8" ? "bf16" : "fp8",
            .text = {}};
  }

  static PromiseSubject tiny(const test::LongModel& model, const char* quant) {
    PromiseSubject s = subject();
    s.path = model.path();
    s.quant = quant;
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) s.text.push_back(static_cast<std::int32_t>(random() % 131));
    return s;
  }

  static void keep(PromisePlayer& player, const CaseLimits& limits, unsigned rounds) {
    for (const PromiseCase& c : sure_cases()) ASSERT_NO_FATAL_FAILURE(keep(player, c));
    rounds = std::max(1U, rounds * number_of("INGOT_PROMISE_TIMES", 1) / kSlower);
    const unsigned first = number_of("INGOT_PROMISE_SEED", 0);
    for (unsigned seed = first; seed < first + rounds; ++seed) {
      SCOPED_TRACE(seed);
      ASSERT_NO_FATAL_FAILURE(keep(player, random_case(seed, limits)));
    }
  }

  static void keep(PromisePlayer& player, const PromiseCase& c) {
    const std::string wrong = player.play(c);
    if (wrong.empty()) return;
    std::printf("%s; being shrunk\n%s\n", wrong.c_str(), to_string(c).c_str());
    const auto fails = [&](const PromiseCase& less) { return !player.play(less).empty(); };
    const PromiseCase small = shrunk(c, fails, kShrinkTrials);
    FAIL() << wrong << "; shrunk: " << player.play(small) << "\n" << to_string(small);
  }

  // Every kind of condition came about, or the rounds have shown less than they say.
  void expect_all_kinds() {
    const PromiseCounts& n = counts_;
    std::printf("%s\n", to_string(n).c_str());
    for (const std::int64_t count :
         {n.several, n.in_chunks, n.hits, n.answer_hits, n.preemptions, n.replayed, n.to_host,
          n.from_host, n.ngram_held, n.ngram_failed, n.model_held, n.model_failed, n.threaded})
      EXPECT_GT(count, 0) << to_string(n);
  }

  PromiseCounts counts_;
  test::OwnCache cache_;
};

TEST_P(PromiseTest, TinyModelsKeepIt) {
  const struct {
    const char* name;
    const char* quant;
    std::int64_t window = 0;
  } models[] = {{"llama", "none"},
                {"mistral", "int8"},
                {"qwen2_window", "q4_0"},
                {"llama_rope_longrope", "none"},
                {"llama_gqa_tied", "none", 70}};
  for (const auto& [name, quant, window] : models) {
    SCOPED_TRACE(name);
    const test::LongModel model(fs::path(INGOT_FIXTURES) / "models" / name);
    PromiseSubject s = tiny(model, quant);
    s.window = window;
    s.sink_tokens = window > 0 ? 4 : 0;
    PromisePlayer player(std::move(s), counts_);
    keep(player, player.limits(), 15);
    if (HasFatalFailure()) return;
  }
  expect_all_kinds();
}

TEST_P(PromiseTest, ARealModelKeepsIt) {
  const fs::path file = kFetched / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file << "; scripts/fetch_smollm2 brings it";
  PromiseSubject s = subject();
  s.path = file;
  s.text = parse_json(read_file(fs::path(INGOT_FIXTURES) / "smollm2" / "english.json"), "ids")
               .at("ids")
               .get<std::vector<std::int32_t>>();
  PromisePlayer player(std::move(s), counts_);
  CaseLimits limits = player.limits();
  limits.most_pages = 1;
  limits.requests = 4;
  limits.different = 8;
  limits.answer = 8;
  keep(player, limits, 6);
  expect_all_kinds();
}

INSTANTIATE_TEST_SUITE_P(Kinds, PromiseTest,
                         testing::Values(std::pair("bf16", ComputeMode::kNative),
                                         std::pair("auto", ComputeMode::kF32),
                                         std::pair("int8", ComputeMode::kNative),
                                         std::pair("fp8", ComputeMode::kNative)),
                         [](const auto& info) {
                           return info.param.second == ComputeMode::kF32 ? "f32" : info.param.first;
                         });

}  // namespace
}  // namespace ingot
