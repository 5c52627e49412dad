#include "runtime/sampling_state.h"

#include "base/error.h"
#include "runtime/logit_row.h"

#include <gtest/gtest.h>

#include "tests/runtime/allocation_count.h"
#include "tests/runtime/sampling_reference.h"
#include <map>
#include <random>

namespace ingot {
namespace {

constexpr std::size_t kVocab = 40;

// Which tokens the state bans.
std::vector<bool> banned_by(const SamplingState& state) {
  std::vector<float> scores(kVocab, 1.0f);
  state.ban_next(scores);
  std::vector<bool> banned;
  for (const float x : scores) banned.push_back(x == kNoLogit);
  return banned;
}

std::vector<bool> banned_in(const test::SamplingCase& c) {
  std::vector<bool> banned;
  for (const double x : test::reference_logits(c)) banned.push_back(x == kNoLogit);
  return banned;
}

std::map<std::int32_t, std::uint32_t> answer_counts(const SamplingState& state) {
  std::map<std::int32_t, std::uint32_t> counts;
  for (const auto& entry : state.counts()) {
    EXPECT_FALSE(counts.contains(entry.id)) << "a token has one entry";
    if (entry.in_answer > 0) counts[entry.id] = entry.in_answer;
  }
  return counts;
}

// Random pushes and pops against what plain loops find in the whole sequence.
TEST(SamplingStateTest, FollowsTheSequenceThroughDraftsTakenBack) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    // Few different tokens, so that runs repeat; sometimes more than a table first holds.
    const std::size_t different = round % 3 == 0 ? kVocab : 2 + random() % 5;
    const auto token = [&] { return static_cast<std::int32_t>(random() % different); };
    test::SamplingCase c{.logits = std::vector<float>(kVocab, 0.0f), .params = {}};
    c.params.no_repeat_ngram_size = static_cast<std::int32_t>(random() % 6);
    c.params.frequency_penalty = 0.5;
    c.params.top_p = 0.9;
    c.params.top_p_decay = 0.8;
    c.params.top_p_min = 0.2;
    c.params.top_p_reset_id = 1;
    for (std::size_t i = random() % 4; i > 0; --i) {
      std::vector<std::int32_t> word(1 + random() % 4);
      for (std::int32_t& id : word) id = token();
      c.params.bad_token_ids.push_back(word);
    }
    for (std::size_t i = random() % 30; i > 0; --i) c.prompt.push_back(token());
    SamplingState state(c.params, c.prompt);
    for (int step = 0; step < 150; ++step) {
      if (random() % 4 == 0) {
        const std::size_t back = random() % (std::min<std::size_t>(c.answer.size(), 9) + 1);
        state.pop(back);
        c.answer.resize(c.answer.size() - back);
      } else {
        c.answer.push_back(token());
        state.push(c.answer.back());
      }
      ASSERT_EQ(state.generated(), c.answer.size());
      ASSERT_EQ(banned_by(state), banned_in(c)) << "round " << round << ", step " << step;
      std::map<std::int32_t, std::uint32_t> counts;
      for (const std::int32_t id : c.answer) ++counts[id];
      ASSERT_EQ(answer_counts(state), counts);
      double top_p = 0.9;
      for (const std::int32_t id : c.answer) top_p = id == 1 ? 0.9 : std::max(top_p * 0.8, 0.2);
      ASSERT_EQ(state.top_p(), top_p);
    }
  }
}

TEST(SamplingStateTest, ManyTokensGrowTheTables) {
  SamplingParams p{.repetition_penalty = 1.1, .no_repeat_ngram_size = 2};
  std::vector<std::int32_t> prompt;
  for (std::int32_t id = 0; id < 5000; ++id) prompt.push_back(id * 7 % 5000);
  SamplingState state(p, prompt);
  for (std::int32_t id = 0; id < 5000; ++id) state.push(id);
  EXPECT_EQ(state.counts().size(), 5000u);
  for (const auto& entry : state.counts()) {
    EXPECT_EQ(entry.in_answer, 1u);
    EXPECT_TRUE(entry.in_prompt);
  }
  state.pop(
      4999);  // token 0 is last: in the prompt 7 came after it, in the answer 0 came after 4993
  std::vector<float> scores(5000, 0.0f);
  state.ban_next(scores);
  for (std::int32_t id = 0; id < 5000; ++id)
    EXPECT_EQ(scores[static_cast<std::size_t>(id)] == kNoLogit, id == 7) << id;
}

// Reserved after a prompt, so that what is there moves to the larger tables.
TEST(SamplingStateTest, WhatIsReservedChangesNothingAndIsAllThatIsAllocated) {
  constexpr std::size_t kTokens = 3000;
  const SamplingParams p{.top_p = 0.9,
                         .top_p_decay = 0.99,
                         .repetition_penalty = 1.1,
                         .no_repeat_ngram_size = 2,
                         .bad_token_ids = {{1, 2, 3}}};
  std::mt19937 random(3);
  const auto token = [&] { return static_cast<std::int32_t>(random() % kVocab); };
  std::vector<std::int32_t> prompt(100);
  for (std::int32_t& id : prompt) id = token();
  SamplingState grows(p, prompt), reserved(p, prompt);
  reserved.reserve(kTokens, kVocab);
  for (std::size_t i = prompt.size(); i < kTokens; ++i) {
    const std::int32_t id = token();
    grows.push(id);
    const std::uint64_t before = test::allocations();
    reserved.push(id);
    ASSERT_EQ(test::allocations(), before) << i;
    ASSERT_EQ(banned_by(reserved), banned_by(grows)) << i;
  }
  EXPECT_EQ(answer_counts(reserved), answer_counts(grows));
  EXPECT_EQ(reserved.top_p(), grows.top_p());
}

TEST(SamplingStateTest, KeepsNothingThatNoParameterAsksFor) {
  SamplingState state({}, std::vector<std::int32_t>(100, 3));
  for (int i = 0; i < 10; ++i) state.push(3);
  EXPECT_TRUE(state.counts().empty());
  EXPECT_EQ(state.top_p(), 1.0);
  EXPECT_EQ(state.generated(), 10u);
  state.pop(10);
  EXPECT_EQ(state.generated(), 0u);
  EXPECT_THROW(state.pop(1), Error);
  // Without a decay top_p stays, whatever the other two say.
  SamplingState still({.top_p = 0.5, .top_p_min = 0.1, .top_p_reset_id = 3}, {});
  still.push(3);
  still.push(4);
  EXPECT_EQ(still.top_p(), 0.5);
}

TEST(SamplingStateTest, ACopyGoesItsOwnWay) {
  SamplingState state({.frequency_penalty = 1, .no_repeat_ngram_size = 2}, {});
  for (const std::int32_t id : {1, 2, 1}) state.push(id);
  SamplingState fork = state;
  fork.push(3);
  fork.push(1);
  EXPECT_EQ(answer_counts(state), (std::map<std::int32_t, std::uint32_t>{{1, 2}, {2, 1}}));
  EXPECT_EQ(answer_counts(fork), (std::map<std::int32_t, std::uint32_t>{{1, 3}, {2, 1}, {3, 1}}));
  std::vector<bool> wanted(kVocab);
  wanted[2] = true;
  EXPECT_EQ(banned_by(state), wanted);
  wanted[3] = true;
  EXPECT_EQ(banned_by(fork), wanted);
}

}  // namespace
}  // namespace ingot
