#include "runtime/engine_loop.h"

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"

#include <gtest/gtest.h>

#include "tests/runtime/bigram_model.h"
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace ingot {
namespace {

using test::BigramModel;

class EngineLoopTest : public testing::Test {
 protected:
  static constexpr std::int32_t kEnd = 1;      // </s>
  static constexpr std::int32_t kTurnEnd = 3;  // <|im_end|>

  std::int32_t id(std::string_view token) const { return tokenizer_.token_id(token).value(); }

  // Z, then the letters, then the end.
  BigramModel::Script spelling(std::string_view letters) const {
    BigramModel::Script s;
    std::int32_t last = id("Z");
    for (const char c : letters) {
      const std::int32_t next = id(std::string_view(&c, 1));
      s.next[last] = next;
      last = next;
    }
    s.next[last] = kEnd;
    s.end_ids = {kEnd, kTurnEnd};
    return s;
  }

  Request request(SamplingParams sampling = {}) const {
    sampling.temperature = 0;
    return {.prompt = {id("Z")}, .sampling = std::move(sampling)};
  }

  OutputEvent answer(BigramModel& model, SamplingParams sampling) const {
    const RequestId r = model.loop().submit(request(std::move(sampling))).value_or_throw();
    return model.finish_all().at(r);
  }

  Tokenizer tokenizer_ =
      tokenizer_from_json(read_file(std::string(INGOT_FIXTURES) + "/models/llama/tokenizer.json"));
};

TEST_F(EngineLoopTest, StopStringsAcrossTokens) {
  struct Case {
    std::vector<std::string> stop;
    std::int32_t max_tokens;
    std::string text;
    FinishReason finish;
  };
  using enum FinishReason;
  BigramModel model(spelling("ABCDEFGHIJKL"), &tokenizer_);
  for (const Case& c :
       std::vector<Case>{{{"DEFGHIJ"}, 0, "ABC", kStop},
                         {{"CD"}, 0, "AB", kStop},
                         {{"A"}, 0, "", kStop},
                         {{"L"}, 0, "ABCDEFGHIJK", kStop},
                         {{"FG", "EFGH"}, 0, "ABCDE", kStop},
                         {{"EFGH", "FG"}, 0, "ABCDE", kStop},
                         {{"EFG", "FG"}, 0, "ABCD", kStop},
                         {{"FGH"}, 6, "ABCDEF", kLength},  // held until the limit, then given
                         {{"FGH"}, 8, "ABCDE", kStop},     // completed by the last token
                         {{"FGX"}, 0, "ABCDEFGHIJKL", kStop},
                         {{"LM"}, 0, "ABCDEFGHIJKL", kStop},
                         {{"LM"}, 12, "ABCDEFGHIJKL", kLength},
                         {{"1", "2", "3", "4", "HI"}, 0, "ABCDEFG", kStop},
                         {{"</s>"}, 0, "ABCDEFGHIJKL", kStop},
                         {{"AABC", "BCDEFGHIJKLM"}, 0, "ABCDEFGHIJKL", kStop}}) {
    const OutputEvent e = answer(model, {.max_tokens = c.max_tokens, .stop = c.stop});
    SCOPED_TRACE(c.stop[0]);
    EXPECT_EQ(e.text, c.text);
    EXPECT_EQ(e.finish, c.finish);
  }
}

// Text waits only while it may still become a stop string, and none of it is lost.
TEST_F(EngineLoopTest, WhatCannotBecomeAStopStringGoesOutAtOnce) {
  BigramModel model(spelling("ABCDEFGHI"), &tokenizer_);
  const auto texts = [&](std::vector<std::string> stop, std::int32_t max_tokens) {
    std::vector<std::string> pieces;
    const RequestId r = model.loop()
                            .submit(request({.max_tokens = max_tokens, .stop = std::move(stop)}))
                            .value_or_throw();
    while (model.loop().has_work())
      for (const OutputEvent& e : model.loop().step())
        if (e.id == r) pieces.push_back(e.text);
    return pieces;
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(texts({"X"}, 3), (Pieces{"A", "B", "C"}));
  EXPECT_EQ(texts({"CDX"}, 6), (Pieces{"A", "B", "", "", "CDE", "F"}));
  EXPECT_EQ(texts({"CDX", "DEX"}, 6), (Pieces{"A", "B", "", "", "C", "DEF"}));
  EXPECT_EQ(texts({"DEF"}, 5), (Pieces{"A", "B", "C", "", "DE"})) << "with the last event";
  EXPECT_EQ(texts({"DE"}, 9), (Pieces{"A", "B", "C", "", ""}));
}

TEST_F(EngineLoopTest, AStopStringMayBeginInsideACharacterOrAToken) {
  BigramModel::Script script = spelling("");
  std::int32_t last = id("Z");
  const std::string text = "A\xF0\x9F\x98\x80!";
  for (const std::int32_t next : tokenizer_.encode(text)) {
    ASSERT_FALSE(script.next.contains(next)) << "a chain needs different tokens";
    script.next[last] = next;
    last = next;
  }
  script.next[last] = kEnd;
  BigramModel model(script, &tokenizer_);
  EXPECT_EQ(answer(model, {}).text, text);
  EXPECT_EQ(answer(model, {.stop = {"\xF0\x9F\x98\x80"}}).text, "A");
  EXPECT_EQ(answer(model, {.stop = {"!"}}).text, "A\xF0\x9F\x98\x80");

  std::int32_t pair = -1;  // a token of two letters
  for (std::int32_t t = 256; t < BigramModel::kVocab && pair < 0; ++t) {
    const std::string bytes = tokenizer_.token_bytes(t);
    if (bytes.size() == 2 && std::isalpha(bytes[0]) && std::isalpha(bytes[1])) pair = t;
  }
  ASSERT_GE(pair, 0);
  script.next = {{id("Z"), id("A")}, {id("A"), pair}, {pair, id("B")}, {id("B"), kEnd}};
  BigramModel inside(script, &tokenizer_);
  const std::string bytes = tokenizer_.token_bytes(pair);
  EXPECT_EQ(answer(inside, {.stop = {bytes.substr(1) + "B"}}).text, "A" + bytes.substr(0, 1));
}

TEST_F(EngineLoopTest, EveryEndTokenEndsAndIsNotPrinted) {
  for (const std::int32_t end : {kEnd, kTurnEnd}) {
    BigramModel::Script script = spelling("AB");
    script.next[id("B")] = end;
    script.next[end] = id("C");
    BigramModel model(script, &tokenizer_);
    const OutputEvent e = answer(model, {.max_tokens = 20});
    EXPECT_EQ(e.text, "AB");
    EXPECT_EQ(e.finish, FinishReason::kStop);
    EXPECT_EQ(e.usage.prompt_tokens, 1);
    EXPECT_EQ(e.usage.completion_tokens, 3);
    const OutputEvent on = answer(model, {.max_tokens = 6, .ignore_eos = true});
    EXPECT_EQ(on.text, "ABCCC");
    EXPECT_EQ(on.finish, FinishReason::kLength);
    EXPECT_EQ(answer(model, {.max_tokens = 20, .stop_token_ids = {id("B")}}).text, "A");
    EXPECT_EQ(answer(model, {.max_tokens = 20, .ignore_eos = true, .stop_token_ids = {end}}).finish,
              FinishReason::kStop);
  }
}

TEST_F(EngineLoopTest, NothingEndsAnAnswerBeforeMinTokens) {
  BigramModel::Script script = spelling("AB");
  script.next[0] = kTurnEnd;
  BigramModel model(script, &tokenizer_);
  // A B, then 0, the lowest id of equals, in place of the end; after it, in turn, 0 and 0 again.
  const OutputEvent e = answer(model, {.max_tokens = 20, .min_tokens = 5});
  EXPECT_EQ(e.tokens, (std::vector<std::int32_t>{id("A"), id("B"), 0, 0, 0, kTurnEnd}));
  const OutputEvent own =
      answer(model, {.max_tokens = 20, .min_tokens = 3, .stop_token_ids = {id("A")}});
  EXPECT_NE(own.tokens.at(0), id("A"));
  EXPECT_GE(own.tokens.size(), 4u);
  BigramModel letters(spelling("ABCDEFG"), &tokenizer_);
  EXPECT_EQ(answer(letters, {.min_tokens = 4, .stop = {"C"}}).text, "ABCDEFG");
  EXPECT_EQ(answer(letters, {.min_tokens = 4, .stop = {"CD"}}).text, "ABCDEFG");
  EXPECT_EQ(answer(letters, {.min_tokens = 4, .stop = {"EF"}}).text, "ABCD");
  EXPECT_EQ(answer(letters, {.min_tokens = 4, .stop = {"D"}}).text, "ABC");
}

TEST_F(EngineLoopTest, LimitsAreExact) {
  BigramModel::Script script = spelling("A");
  script.next[id("A")] = id("A");
  script.max_seq = 10;
  BigramModel model(script, &tokenizer_);
  EXPECT_EQ(answer(model, {.max_tokens = 1}).tokens.size(), 1u);
  const OutputEvent e = answer(model, {});
  EXPECT_EQ(e.tokens.size(), 9u);
  EXPECT_EQ(e.finish, FinishReason::kLength);
  const auto with_prompt = [&](std::size_t n) {
    Request r = request();
    r.prompt.assign(n, id("A"));
    return model.loop().submit(std::move(r));
  };
  const RequestId longest = with_prompt(9).value_or_throw();
  EXPECT_EQ(model.finish_all().at(longest).tokens.size(), 1u);
  EXPECT_FALSE(with_prompt(10).ok());
  EXPECT_FALSE(with_prompt(11).ok());
  EXPECT_FALSE(with_prompt(0).ok());
}

TEST_F(EngineLoopTest, CancelFreesPagesAtOnce) {
  BigramModel::Script script = spelling("A");
  script.next[id("A")] = id("A");
  BigramModel model(script, &tokenizer_);
  EngineLoop& loop = model.loop();
  const KvCache& cache = loop.scheduler().cache();
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(loop.submit(request()).value_or_throw());
  loop.step();
  EXPECT_EQ(loop.scheduler().running(), 2u);
  EXPECT_EQ(loop.scheduler().waiting(), 1u);
  const std::int64_t before = cache.available();
  EXPECT_LT(before, cache.capacity());
  loop.cancel(ids[0]);
  EXPECT_GT(cache.available(), before);
  loop.cancel(ids[2]);  // waits, holds none
  loop.cancel(ids[1]);
  EXPECT_EQ(cache.available(), cache.capacity());
  loop.cancel(ids[1]);  // no more than once
  loop.cancel(12345);
  EXPECT_TRUE(loop.has_work());  // the last events
  const auto ended = model.finish_all();
  ASSERT_EQ(ended.size(), 3u);
  for (const auto& [r, e] : ended) EXPECT_EQ(e.finish, FinishReason::kCancelled);
}

TEST_F(EngineLoopTest, AFailingStepFailsItsOwnRequestsOnly) {
  const std::pair<ErrorCode, std::function<void()>> faults[] = {
      {ErrorCode::kDevice, [] { throw Error(ErrorCode::kDevice, "[device] a fault"); }},
      {ErrorCode::kBug, [] { check(false, "a bug"); }},
      {ErrorCode::kBug, [] { throw std::logic_error("a bug"); }},
      {ErrorCode::kSystem, [] { throw std::system_error(ENOSPC, std::generic_category()); }},
      {ErrorCode::kDoesNotFit, [] { throw std::bad_alloc(); }}};
  for (const auto& [code, fault] : faults) {
    BigramModel model(spelling("ABC"), &tokenizer_);
    EngineLoop& loop = model.loop();
    std::vector<RequestId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(loop.submit(request()).value_or_throw());
    loop.step();          // the first two
    loop.cancel(ids[1]);  // its last event must not be lost with the step
    int calls = 0;
    model.before_step = [&, &fault = fault] {
      if (calls++ == 0) fault();
    };
    const auto ended = model.finish_all();
    // Of the step that failed: the first, and the third, which had taken the second's place.
    EXPECT_EQ(ended.at(ids[0]).finish, FinishReason::kError);
    EXPECT_EQ(ended.at(ids[0]).error.substr(0, 1), "[");
    for (const RequestId r : {ids[0], ids[2]}) EXPECT_EQ(error_of(ended.at(r)).code(), code);
    EXPECT_EQ(ended.at(ids[1]).finish, FinishReason::kCancelled);
    EXPECT_EQ(ended.at(ids[2]).finish, FinishReason::kError);
    EXPECT_EQ(ended.at(ids[3]).finish, FinishReason::kStop);
    EXPECT_EQ(ended.at(ids[3]).text, "ABC");
    EXPECT_EQ(loop.scheduler().cache().available(), loop.scheduler().cache().capacity());
    EXPECT_EQ(answer(model, {}).text, "ABC");
  }
}

TEST_F(EngineLoopTest, LogitsThatAreNoNumbersEndTheRequest) {
  BigramModel::Script script = spelling("ABCDEF");
  script.poisoned = {id("x")};
  BigramModel model(script, &tokenizer_);
  EngineLoop& loop = model.loop();
  const RequestId good = loop.submit(request()).value_or_throw();
  Request bad = request();
  bad.prompt = {id("x")};
  for (const double temperature : {0.0, 1.0}) {
    bad.sampling.temperature = temperature;
    const RequestId r = loop.submit(bad).value_or_throw();
    bool failed = false;
    for (int step = 0; step < 2; ++step)  // what one step made is told while the next runs
      for (const OutputEvent& e : loop.step())
        if (e.id == r) {
          failed = e.finish == FinishReason::kError && e.error.find("logits") != std::string::npos;
          EXPECT_EQ(e.error_code, ErrorCode::kRequest);
          EXPECT_TRUE(e.tokens.empty());
        } else {
          EXPECT_EQ(e.finish, FinishReason::kRunning);
        }
    EXPECT_TRUE(failed) << "within one step";
  }
  EXPECT_EQ(model.finish_all().at(good).finish, FinishReason::kStop);
}

TEST_F(EngineLoopTest, ParametersOutOfRangeAreRefusedByName) {
  BigramModel model(spelling("ABC"), &tokenizer_);
  EngineLoop& loop = model.loop();
  const RequestId neighbour = loop.submit(request()).value_or_throw();
  const double nan = std::nan("");
  const std::int32_t vocab = BigramModel::kVocab;
  const std::vector<std::pair<std::string, SamplingParams>> wrong = {
      {"temperature", {.temperature = -1}},
      {"temperature", {.temperature = nan}},
      {"temperature", {.temperature = std::numeric_limits<double>::infinity()}},
      {"temperature", {.temperature = 1e10}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = 0}},
      {"top_p", {.top_p = 1.0001}},
      {"top_p", {.top_p = nan}},
      {"min_p", {.min_p = -0.1}},
      {"repetition_penalty", {.repetition_penalty = 0}},
      {"presence_penalty", {.presence_penalty = nan}},
      {"frequency_penalty", {.frequency_penalty = 1e9}},
      {"max_tokens", {.max_tokens = -1}},
      {"min_tokens", {.min_tokens = -1}},
      {"min_tokens", {.max_tokens = 2, .min_tokens = 3}},
      {"stop", {.stop = {"a", ""}}},
      {"stop_token_ids", {.stop_token_ids = {-1}}},
      {"stop_token_ids", {.stop_token_ids = {vocab}}},
      {"stop_token_ids", {.stop_token_ids = {999999}}},
      {"logprobs", {.logprobs = vocab + 1}},
      {"logprobs", {.logprobs = -2}}};
  for (const auto& [field, sampling] : wrong) {
    const auto result = loop.submit({.prompt = {id("Z")}, .sampling = sampling});
    ASSERT_FALSE(result.ok()) << field;
    EXPECT_EQ(result.error().code(), ErrorCode::kRequest);
    EXPECT_NE(result.error().message().find(field), std::string::npos) << result.error().message();
  }
  for (const std::int32_t t : {-1, vocab, INT32_MAX, INT32_MIN})
    EXPECT_FALSE(loop.submit({.prompt = {id("Z"), t}, .sampling = {}}).ok()) << t;
  EXPECT_EQ(model.finish_all().at(neighbour).text, "ABC");
}

TEST_F(EngineLoopTest, ARunningRequestEndsAtItsDeadlineAndLeavesItsPages) {
  BigramModel::Script script;  // every token repeats itself
  script.max_seq = 4096;
  script.kv_pages = 2048;
  BigramModel model(std::move(script), &tokenizer_);
  Request late = request();
  late.share_cache = false;
  late.deadline = 0.05;
  const KvCache& cache = model.loop().scheduler().cache();
  const RequestId r = model.loop().submit(std::move(late)).value_or_throw();
  std::int64_t used = 0;
  model.before_step = [&] {
    used = std::max(used, cache.capacity() - cache.available());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const OutputEvent e = model.finish_all().at(r);
  EXPECT_EQ(e.finish, FinishReason::kDeadline);
  EXPECT_TRUE(e.last);
  EXPECT_GT(used, 0);
  EXPECT_EQ(e.usage.completion_tokens, std::ssize(e.tokens));
  EXPECT_LT(std::ssize(e.tokens), 4000);
  EXPECT_EQ(cache.available(), cache.capacity());
  EXPECT_EQ(model.loop().scheduler().state(r).phase, Phase::kGone);
  EXPECT_EQ(model.loop().statistics().expired, 1);
}

TEST_F(EngineLoopTest, ExtremeButLegalParametersAnswer) {
  BigramModel model(spelling("ABC"), &tokenizer_);
  // One beside it in every step, whose text is drawn at an ordinary temperature.
  const Request ordinary{.prompt = {id("Z")},
                         .sampling = {.temperature = 5, .seed = 3, .max_tokens = 6}};
  const RequestId first = model.loop().submit(ordinary).value_or_throw();
  const std::vector<std::int32_t> alone = model.finish_all().at(first).tokens;
  const auto answer_beside = [&](const SamplingParams& sampling) {
    const RequestId beside = model.loop().submit(ordinary).value_or_throw();
    const RequestId r =
        model.loop().submit({.prompt = {id("Z")}, .sampling = sampling}).value_or_throw();
    const auto ended = model.finish_all();
    EXPECT_EQ(ended.at(beside).tokens, alone);
    return ended.at(r).text;
  };
  for (const double temperature : {0.0, -0.0, 1e-40, 1e-10, 1e-4, 0.1})
    EXPECT_EQ(answer_beside({.temperature = temperature, .seed = 7}), "ABC") << temperature;
  for (const SamplingParams& s :
       {SamplingParams{.temperature = 1e6, .top_p = 1e-4, .seed = 1},
        SamplingParams{.temperature = 1, .top_k = 1, .seed = 1},
        SamplingParams{.temperature = 1, .top_k = 1000000000, .top_p = 1e-4, .seed = 1},
        SamplingParams{.temperature = 1, .min_p = 1, .seed = 1}})
    EXPECT_EQ(answer_beside(s), "ABC");
}

}  // namespace
}  // namespace ingot
