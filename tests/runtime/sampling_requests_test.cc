// Sampling parameters on their way through the engine loop.
#include "base/error.h"
#include "base/file.h"
#include "runtime/engine_loop.h"

#include <gtest/gtest.h>

#include "tests/runtime/bigram_model.h"
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace ingot {
namespace {

using test::BigramModel;

constexpr std::int32_t kEnd = 1;  // </s>

class SamplingRequestsTest : public testing::Test {
 protected:
  std::int32_t id(std::string_view token) const { return tokenizer_.token_id(token).value(); }

  // Z, then A to H, then the end.
  BigramModel::Script alphabet() const {
    const std::string_view letters = "ZABCDEFGH";
    BigramModel::Script s;
    for (std::size_t i = 0; i + 1 < letters.size(); ++i)
      s.next[id(letters.substr(i, 1))] = id(letters.substr(i + 1, 1));
    s.next[id("H")] = kEnd;
    s.end_ids = {kEnd};
    return s;
  }

  Request request(SamplingParams sampling = {}) const {
    sampling.temperature = 0;
    return {.prompt = {id("Z")}, .sampling = std::move(sampling), .change_logits = {}};
  }

  OutputEvent run(BigramModel& model, Request r) const {
    const RequestId submitted = model.loop().submit(std::move(r)).value_or_throw();
    return model.finish_all().at(submitted);
  }
  OutputEvent answer(SamplingParams sampling) { return run(model_, request(std::move(sampling))); }

  Tokenizer tokenizer_ =
      tokenizer_from_json(read_file(std::string(INGOT_FIXTURES) + "/models/llama/tokenizer.json"));
  BigramModel model_{alphabet(), &tokenizer_};
};

// Ids outside the vocabulary and values that are none reach nobody's logits.
TEST_F(SamplingRequestsTest, WhatIsRefusedLeavesTheNeighboursAlone) {
  SamplingParams own{.logprobs = 2};
  const OutputEvent alone = answer(own);
  const RequestId neighbour = model_.loop().submit(request(own)).value_or_throw();
  model_.loop().step();
  const std::int32_t vocab = BigramModel::kVocab;
  const std::vector<std::pair<std::string, SamplingParams>> wrong = {
      {"logit_bias", {.logit_bias = {{999999, 1}}}},
      {"logit_bias", {.logit_bias = {{-1, 1}}}},
      {"logit_bias", {.logit_bias = {{5, 101}}}},
      {"logit_bias", {.logit_bias = {{5, std::nan("")}}}},
      {"bad_token_ids", {.bad_token_ids = {{vocab}}}},
      {"bad_token_ids", {.bad_token_ids = {{-1}}}},
      {"stop_token_ids", {.min_tokens = 3, .stop_token_ids = {999999}}},
      {"stop_token_ids", {.stop_token_ids = {-1}}},
      {"top_p_reset_id", {.top_p_reset_id = vocab}},
      {"n", {.n = 0}},
      {"best_of", {.n = 3, .best_of = 2}},
      {"beam_width", {.beam_width = 0}},
      {"prompt_logprobs", {.prompt_logprobs = -2}}};
  for (const auto& [field, sampling] : wrong) {
    const auto result = model_.loop().submit(request(sampling));
    ASSERT_FALSE(result.ok()) << field;
    EXPECT_EQ(result.error().code(), ErrorCode::kRequest);
    EXPECT_NE(result.error().message().find(field), std::string::npos) << result.error().message();
  }
  const OutputEvent beside = model_.finish_all().at(neighbour);
  EXPECT_EQ(beside.finish, FinishReason::kStop);
  EXPECT_EQ(beside.text, "ABCDEFGH");
  ASSERT_EQ(beside.logprobs.size(), 1u);  // of the last event
  EXPECT_EQ(beside.logprobs[0].token, alone.logprobs.at(0).token);
  EXPECT_EQ(beside.logprobs[0].logprob, alone.logprobs[0].logprob);
  EXPECT_EQ(beside.logprobs[0].top, alone.logprobs[0].top);
}

TEST_F(SamplingRequestsTest, BiasAndBadWordsSteerTheAnswer) {
  EXPECT_EQ(answer({}).text, "ABCDEFGH");
  EXPECT_EQ(answer({.logit_bias = {{id("F"), 50}}, .max_tokens = 3}).text, "FFF");
  const std::string without_c = answer({.bad_words = {"C"}, .max_tokens = 5}).text;
  EXPECT_EQ(without_c.substr(0, 2), "AB");
  EXPECT_EQ(without_c.find('C'), std::string::npos) << without_c;
  // Only the sequence is bad: D may come, after C it may not.
  const OutputEvent e = answer({.bad_token_ids = {{id("B"), id("C"), id("D")}}, .max_tokens = 4});
  EXPECT_EQ(e.text.substr(0, 3), "ABC");
  EXPECT_NE(e.tokens.at(3), id("D"));
  BigramModel no_text(alphabet(), nullptr);
  EXPECT_FALSE(no_text.loop().submit(request({.bad_words = {"C"}})).ok());
}

// A says A with a logit of 10, and a bias gives B 9: whose turn it is shows what was subtracted
// when. The prompt is one token twenty times, read, then found in the cache.
TEST_F(SamplingRequestsTest, RepetitionSeesThePromptPresenceAndFrequencyDoNot) {
  BigramModel::Script script;
  script.max_batch = 3;
  BigramModel model(script, &tokenizer_);
  const auto start = [&](SamplingParams p) {
    p.temperature = 0;
    p.max_tokens = 3;
    p.logit_bias = {{id("B"), 9}};
    const Request r{.prompt = std::vector<std::int32_t>(20, id("A")), .sampling = std::move(p)};
    return run(model, r).text.substr(0, 3);
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(start({}), "AAA");
    EXPECT_EQ(start({.presence_penalty = 2}), "ABB");
    EXPECT_EQ(start({.frequency_penalty = 2}), "ABB");
    EXPECT_EQ(start({.frequency_penalty = 0.6}), "AAB");
    EXPECT_EQ(start({.repetition_penalty = 1.3}), "BBB");
  }
}

TEST_F(SamplingRequestsTest, NoRunComesTwice) {
  BigramModel::Script loops = alphabet();
  loops.next[id("C")] = id("A");
  BigramModel model(loops, &tokenizer_);
  const auto start = [&](std::int32_t n) {
    return run(model, request({.no_repeat_ngram_size = n, .max_tokens = 8})).text.substr(0, 6);
  };
  EXPECT_EQ(start(0), "ABCABC");
  EXPECT_EQ(start(3).substr(0, 5), "ABCAB");
  EXPECT_NE(start(3)[5], 'C');
  EXPECT_EQ(start(2).substr(0, 4), "ABCA");
  EXPECT_NE(start(2)[4], 'B');
}

TEST_F(SamplingRequestsTest, TheStopStringMayBePartOfTheAnswer) {
  EXPECT_EQ(answer({.stop = {"DE"}}).text, "ABC");
  EXPECT_EQ(answer({.stop = {"DE"}, .include_stop_str = true}).text, "ABCDE");
  EXPECT_EQ(answer({.stop = {"DEFX", "D", "DE"}, .include_stop_str = true}).text, "ABCD");
  EXPECT_EQ(answer({.stop = {"H"}, .include_stop_str = true}).text, "ABCDEFGH");
  const OutputEvent never = answer({.stop = {"HI"}, .include_stop_str = true});
  EXPECT_EQ(never.text, "ABCDEFGH");
}

// Whether drawn or searched for: who may say nothing ends with an error of its own.
TEST_F(SamplingRequestsTest, WhereNothingIsAllowedTheRequestEndsAlone) {
  for (const std::int32_t beams : {1, 2}) {
    BigramModel::Script script = alphabet();
    script.max_batch = 3;
    BigramModel model(script, &tokenizer_);
    SamplingParams none{.beam_width = beams};
    for (std::int32_t t = 0; t < BigramModel::kVocab; ++t) none.bad_token_ids.push_back({t});
    SamplingParams later{.beam_width = beams};  // A may come, then nothing
    later.bad_token_ids = none.bad_token_ids;
    std::erase(later.bad_token_ids, std::vector<std::int32_t>{id("A")});
    later.bad_token_ids.push_back({id("A"), id("A")});
    for (const SamplingParams& p : {none, later}) {
      const RequestId stuck = model.loop().submit(request(p)).value_or_throw();
      const RequestId neighbour = model.loop().submit(request()).value_or_throw();
      const auto ended = model.finish_all();
      const OutputEvent& e = ended.at(stuck);
      EXPECT_EQ(e.finish, FinishReason::kError);
      EXPECT_EQ(e.error_code, ErrorCode::kRequest);
      EXPECT_NE(e.error.find("no token is allowed"), std::string::npos) << e.error;
      EXPECT_EQ(ended.at(neighbour).text, "ABCDEFGH");
      EXPECT_EQ(run(model, request()).text, "ABCDEFGH");
    }
  }
}

// As of a draw: no end token in it, and cut where a stop string begins.
TEST_F(SamplingRequestsTest, TheTextOfABeamEndsAsOthersDo) {
  for (const std::int32_t beams : {1, 2}) {
    const auto ask = [&](SamplingParams p) {
      p.beam_width = beams;
      OutputEvent e = answer(std::move(p));
      EXPECT_EQ(e.finish, FinishReason::kStop);
      return e.text;
    };
    EXPECT_EQ(ask({}), "ABCDEFGH");
    EXPECT_EQ(ask({.stop = {"DE"}}), "ABC");
    EXPECT_EQ(ask({.stop = {"DE"}, .include_stop_str = true}), "ABCDE");
    EXPECT_EQ(ask({.stop = {"A"}}), "");
    EXPECT_EQ(ask({.stop_token_ids = {id("C")}}), "AB");
  }
}

// What is told at once is bounded; what is told token by token is not held.
TEST_F(SamplingRequestsTest, LogprobsThatWouldFillTheMemoryAreRefused) {
  BigramModel::Script script = alphabet();
  script.max_seq = 4096;
  script.kv_pages = 4 * 4096 / BigramModel::kPageTokens;
  BigramModel model(script, &tokenizer_);
  const auto refusal = [&](std::size_t prompt, SamplingParams p) {
    return model.loop().refusal_of(
        {.prompt = std::vector<std::int32_t>(prompt, id("A")), .sampling = std::move(p)});
  };
  const std::int32_t all = BigramModel::kVocab;
  EXPECT_EQ(refusal(3276, {.prompt_logprobs = all}), "");
  EXPECT_NE(refusal(3277, {.prompt_logprobs = all}).find("prompt_logprobs 320: of 3277 tokens"),
            std::string::npos);
  EXPECT_NE(refusal(3277, {.prompt_logprobs = all}).find("wanted at most 1048576, 319"),
            std::string::npos);
  EXPECT_EQ(refusal(3277, {.prompt_logprobs = 319}), "");
  EXPECT_EQ(refusal(1, {.logprobs = all}), "");
  EXPECT_NE(refusal(1, {.best_of = 2, .logprobs = all}).find("logprobs 320"), std::string::npos);
  EXPECT_NE(refusal(1, {.logprobs = all, .beam_width = 2}).find("logprobs 320"), std::string::npos);
  EXPECT_EQ(refusal(1, {.max_tokens = 100, .best_of = 2, .logprobs = all}), "");
}

TEST_F(SamplingRequestsTest, TheSeedIsToldAndGivesTheSameAnswerAgain) {
  Request r{.prompt = {id("Z")}, .sampling = {.temperature = 1e6, .max_tokens = 12}};
  const OutputEvent first = run(model_, r);
  const OutputEvent other = run(model_, r);
  EXPECT_NE(first.seed, other.seed);
  EXPECT_NE(first.tokens, other.tokens);
  r.sampling.seed = first.seed;
  EXPECT_EQ(run(model_, r).tokens, first.tokens);
  EXPECT_EQ(run(model_, r).seed, first.seed);
}

TEST_F(SamplingRequestsTest, ACallbackSeesEveryStepAndFailsNobodyElse) {
  Request mine = request();
  std::vector<std::size_t> lengths;
  mine.change_logits = [&](const LogitsView& view) {
    EXPECT_EQ(view.prompt_tokens, 1u);
    EXPECT_EQ(view.logits.size(), static_cast<std::size_t>(BigramModel::kVocab));
    lengths.push_back(view.tokens.size());
    if (view.tokens.back() == id("C")) view.logits[kEnd] = 1e3f;
  };
  EXPECT_EQ(run(model_, std::move(mine)).text, "ABC");
  EXPECT_EQ(lengths, (std::vector<std::size_t>{1, 2, 3, 4}));

  // Everything of its own row, and nothing of those beside it in the same step.
  Request loud = request({.max_tokens = 8});
  loud.change_logits = [&](const LogitsView& view) {
    std::ranges::fill(view.logits, 0.0f);
    view.logits[static_cast<std::size_t>(id("x"))] = 1;
  };
  const RequestId before = model_.loop().submit(request({.max_tokens = 8})).value_or_throw();
  const RequestId shouting = model_.loop().submit(std::move(loud)).value_or_throw();
  const auto both = model_.finish_all();
  EXPECT_EQ(both.at(shouting).text, "xxxxxxxx");
  EXPECT_EQ(both.at(before).text, "ABCDEFGH");

  // Ahead of penalties: A, then B because A has come, then A, which both have.
  Request penalised = request({.presence_penalty = 2, .max_tokens = 4});
  penalised.change_logits = [&](const LogitsView& view) {
    std::ranges::fill(view.logits, 0.0f);
    view.logits[static_cast<std::size_t>(id("A"))] = 10;
    view.logits[static_cast<std::size_t>(id("B"))] = 9;
  };
  EXPECT_EQ(run(model_, std::move(penalised)).text, "ABAA");

  Request bad = request();
  bad.change_logits = [](const LogitsView&) { throw std::runtime_error("no"); };
  const RequestId failing = model_.loop().submit(std::move(bad)).value_or_throw();
  const RequestId neighbour = model_.loop().submit(request()).value_or_throw();
  const auto ended = model_.finish_all();
  EXPECT_EQ(ended.at(failing).finish, FinishReason::kError);
  EXPECT_EQ(error_of(ended.at(failing)).code(), ErrorCode::kRequest);
  EXPECT_EQ(ended.at(neighbour).text, "ABCDEFGH");
}

// A guess behind the end of an answer is drawn before its text is known to end: it counts for
// nothing when answers are compared.
TEST_F(SamplingRequestsTest, BestOfComparesWhatAnswersHold) {
  BigramModel::Script script = alphabet();
  script.max_batch = 4;
  BigramModel plainly(script, &tokenizer_);
  script.loop.draft_tokens = 3;
  BigramModel guessing(script, &tokenizer_);
  const std::int32_t z = id("Z"), a = id("A"), b = id("B"), n = id("N"), x = id("X");
  std::int64_t held = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    // The model expects A and B behind Z, but not X and N, where the other half of the answers
    // goes, nor X behind B, which is guessed since the prompt has it.
    Request r =
        request({.max_tokens = 8, .stop = {"B", "N"}, .include_stop_str = true, .best_of = 4});
    r.prompt = {z, a, b, x, z};
    r.sampling.temperature = 1;
    r.sampling.seed = seed;
    r.change_logits = [=](const LogitsView& view) {
      const std::int32_t last = view.tokens.back();
      std::ranges::fill(view.logits, -1e9F);
      const auto allow = [&](std::int32_t token) {
        view.logits[static_cast<std::size_t>(token)] = 0;
      };
      if (last == z) {
        allow(a);
        allow(x);
      } else {
        allow(last == a ? b : last == x ? n : x);
      }
    };
    const OutputEvent plain = run(plainly, r);
    EXPECT_EQ(run(guessing, r).text, plain.text) << "seed " << seed;
    held += plain.text == "AB";
  }
  EXPECT_GE(held, 15);
}

}  // namespace
}  // namespace ingot
