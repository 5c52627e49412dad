// Windows with attention sinks: what is seen, and that a sequence holds no more pages than it sees,
// however long it grows.
#include "base/error.h"
#include "llm/memory_fit.h"
#include "llm/model.h"
#include "plan/kv_reach.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

namespace ingot {
namespace {

namespace fs = std::filesystem;

using Tokens = std::vector<std::int32_t>;
using Logits = std::vector<float>;

constexpr std::int64_t kLongest = 1024;
constexpr std::int64_t kWindow = 64;
constexpr std::int64_t kSinks = 4;

struct Setting {
  std::int64_t window = kWindow;
  std::int64_t sinks = kSinks;
  std::int64_t batch = 1;
  std::int64_t step_tokens = 64;
  std::string kv_cache = "auto";
  std::string draft;
  ComputeMode mode = ComputeMode::kNative;
  std::int64_t kv_pages = 0;  // 0: as many as sequences may want
};

class SinksTest : public testing::Test {
 protected:
  SinksTest() : checkpoint_(fs::path(INGOT_FIXTURES) / "models" / "llama_gqa_tied") {
    checkpoint_.config()["max_position_embeddings"] = kLongest;
    path_ = checkpoint_.save();
  }
  static OpenOptions options(const Setting& s) {
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = s.batch;
    o.draft = s.draft;
    o.build.attention_window = s.window;
    o.build.sink_tokens = s.sinks;
    o.build.kv_cache = s.kv_cache;
    o.build.mode = s.mode;
    o.build.max_batch = s.batch;
    o.build.max_tokens = s.step_tokens;
    return o;
  }
  std::unique_ptr<Model> open(const Setting& s) const {
    OpenOptions o = options(s);
    if (s.kv_pages == 0) return Model::open(path_, o);
    const auto whole = Model::open(path_, o);
    o.memory = memory_table(whole->plan(), whole->device(), s.kv_pages).back().bytes;
    return Model::open(path_, o);
  }
  static Tokens random_tokens(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Tokens tokens(count);
    for (std::int32_t& id : tokens) id = static_cast<std::int32_t>(random() % 131);
    return tokens;
  }
  static Logits score(Model& model, const Tokens& tokens, std::int64_t steps = 0) {
    Logits all;
    model.score(tokens, steps, [&](std::int64_t, std::int64_t, std::span<const float> rows) {
      all.insert(all.end(), rows.begin(), rows.end());
    });
    return all;
  }
  static Request request(std::size_t prompt, std::int32_t answer, unsigned seed) {
    return {
        .prompt = random_tokens(prompt, seed),
        .sampling = {.temperature = 1.0, .seed = seed, .max_tokens = answer, .ignore_eos = true}};
  }
  // What each request gets in one batch. After every step the books agree, and `check` looks.
  static std::vector<Tokens> answers(Model& model, const std::vector<Request>& requests,
                                     const std::function<void()>& check = {}) {
    std::map<RequestId, Tokens> by_id;
    for (const Request& r : requests) by_id[model.loop().submit(r).value_or_throw()];
    while (model.loop().has_work()) {
      for (const OutputEvent& e : model.loop().step())
        by_id[e.id].insert(by_id[e.id].end(), e.tokens.begin(), e.tokens.end());
      model.loop().scheduler().check_integrity();
      if (check) check();
    }
    std::vector<Tokens> all;
    for (const auto& [id, tokens] : by_id) all.push_back(tokens);
    return all;
  }

  test::OwnCache cache_;
  test::EditedCheckpoint checkpoint_;
  fs::path path_;
};

TEST_F(SinksTest, AreSeenInSpiteOfTheWindow) {
  const Tokens tokens = random_tokens(200, 1);
  const Logits all = score(*open({.window = 0, .sinks = 0}), tokens);
  const Logits window = score(*open({.sinks = 0}), tokens);
  const Logits sinks = score(*open({}), tokens);
  const std::size_t vocab = all.size() / tokens.size();
  const auto row = [&](const Logits& logits, std::size_t i) {
    return Logits(logits.begin() + static_cast<std::ptrdiff_t>(i * vocab),
                  logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocab));
  };
  // The token at kWindow is the first that the window hides one from, which is a sink; what comes
  // after the sinks is hidden first from the one at kWindow + kSinks.
  EXPECT_EQ(row(window, kWindow - 1), row(all, kWindow - 1));
  EXPECT_NE(row(window, kWindow), row(all, kWindow));
  EXPECT_NE(row(sinks, kWindow + kSinks), row(all, kWindow + kSinks));
  EXPECT_NE(row(sinks, 199), row(window, 199));
  // Where all are sinks the window hides nothing. Sinks are added up apart, so bits may differ.
  constexpr auto kF32 = ComputeMode::kF32;
  const Logits exact = score(*open({.window = 0, .sinks = 0, .mode = kF32}), tokens);
  const Logits only_sinks = score(*open({.sinks = kLongest, .mode = kF32}), tokens);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(only_sinks[i], exact[i], 1e-4) << i;
}

TEST_F(SinksTest, ChunksAndThePathChangeNoBit) {
  const Tokens tokens = random_tokens(300, 2);
  for (const char* kv_cache : {"bf16", "int8", "fp8"}) {
    SCOPED_TRACE(kv_cache);
    const Logits whole = score(*open({.step_tokens = 512, .kv_cache = kv_cache}), tokens);
    for (const std::int64_t step_tokens : {1, 5, 64})
      EXPECT_EQ(score(*open({.step_tokens = step_tokens, .kv_cache = kv_cache}), tokens), whole)
          << step_tokens << " tokens a step";
    EXPECT_EQ(score(*open({.kv_cache = kv_cache}), tokens, 299), whole) << "one by one";
  }
}

TEST_F(SinksTest, PagesStayBoundedHoweverLongTheAnswer) {
  const Request long_answer = request(70, 10 * kWindow, 3);
  const Tokens wanted = answers(*open({}), {long_answer})[0];
  ASSERT_EQ(wanted.size(), 10u * kWindow);
  const auto model = open({.kv_pages = 5});  // of sinks, of the window, and for a step
  ASSERT_EQ(kv_reach(model->plan()).window, kWindow);
  ASSERT_EQ(kv_reach(model->plan()).sink_tokens, kSinks);
  ASSERT_EQ(model->executor().kv_pages(), 5);
  ASSERT_EQ(sequence_pages(model->plan(), kLongest), 5);
  std::int64_t most = 0;
  const Tokens got = answers(*model, {long_answer}, [&] {
    const KvCacheStatistics s = model->loop().scheduler().cache().statistics();
    most = std::max(most, s.pages - s.free_pages - s.kept_pages);
  })[0];
  EXPECT_EQ(got, wanted);
  EXPECT_LE(most, 4);  // the sinks' page, and 65 tokens with a page that they begin and end in
  EXPECT_EQ(model->loop().scheduler().preemptions(), 0);
}

TEST_F(SinksTest, ABatchThatIsPausedOrGuessedGivesWhatEachGetsAlone) {
  std::vector<Request> requests;
  for (const unsigned n : {30U, 150U, 1U, 64U, 90U}) requests.push_back(request(n, 200, n));
  const auto crowded = open({.batch = 5, .kv_pages = 9});
  const std::vector<Tokens> got = answers(*crowded, requests);
  EXPECT_GT(crowded->loop().scheduler().preemptions(), 0);
  EXPECT_EQ(answers(*open({.batch = 5, .draft = "ngram"}), requests), got);
  const auto alone = open({});
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(got[i], answers(*alone, {requests[i]})[0]) << i;
}

TEST_F(SinksTest, APromptIsFoundAgainByWhatIsSeen) {
  const auto model = open({.kv_pages = 6});
  const Request r = request(600, 8, 5);
  const OutputEvent cold = model->generate(r);
  const OutputEvent hot = model->generate(r);
  EXPECT_EQ(cold.usage.cached_tokens, 0);
  EXPECT_EQ(hot.usage.cached_tokens, 576);
  EXPECT_EQ(hot.tokens, cold.tokens);
}

TEST_F(SinksTest, WhatFitsIsCountedByWhatIsSeen) {
  for (const Setting& s : {Setting{}, Setting{.window = 0, .sinks = 0}}) {
    const auto model = open(s);
    const std::uint64_t cap = memory_table(model->plan(), model->device(), 5).back().bytes;
    const ModelContents contents = read_contents(path_, model->device(), options(s));
    const FitReport fit = find_fit(path_, contents, model->device(), options(s), cap);
    EXPECT_EQ(fit.longest, s.window > 0 ? kLongest : 5 * 64);
    EXPECT_EQ(fit.sequences, s.window > 0 ? 1 : 0);
  }
}

TEST_F(SinksTest, NeedAWindow) {
  EXPECT_THROW(open({.window = 0, .sinks = 4}), Error);
  EXPECT_THROW(open({.window = -1, .sinks = 0}), Error);
  EXPECT_THROW(open({.sinks = -1}), Error);
}

}  // namespace
}  // namespace ingot
