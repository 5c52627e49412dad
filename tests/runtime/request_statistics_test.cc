// What is told of a request with its last event.
#include <gtest/gtest.h>

#include "tests/runtime/bigram_model.h"
#include <chrono>
#include <thread>
#include <utility>

namespace ingot {
namespace {

using test::BigramModel;

Request request(std::size_t prompt_tokens, std::int32_t max_tokens, std::int32_t answers = 1) {
  Request r;
  r.prompt.assign(prompt_tokens, 7);
  r.sampling.temperature = 0;
  r.sampling.max_tokens = max_tokens;
  r.sampling.n = answers;
  return r;
}

TEST(RequestStatistics, CountTokensPagesAndTimes) {
  BigramModel model({.max_seq = 64, .max_batch = 2}, nullptr);
  int steps = 0;
  model.before_step = [&] {  // the third token comes late
    if (++steps == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const RequestId id = model.loop().submit(request(5, 6)).value_or_throw();
  const RequestStatistics s = model.finish_all().at(id).statistics;
  EXPECT_EQ(s.prompt_tokens, 5);
  EXPECT_EQ(s.cached_tokens, 0);
  EXPECT_EQ(s.generated_tokens, 6);
  EXPECT_EQ(s.preemptions, 0);
  // The last token is never read: ten others, four to a page.
  EXPECT_EQ(s.pages, 3);
  EXPECT_GE(s.token_gap_max, 0.02);
  EXPECT_GE(s.token_gap_mean, s.token_gap_max / 5);
  EXPECT_LE(s.token_gap_mean, s.token_gap_max);
  EXPECT_GE(s.first_token_seconds, s.queue_seconds);
  EXPECT_GE(s.total_seconds, s.first_token_seconds + 5 * s.token_gap_mean - 1e-9);
}

TEST(RequestStatistics, AnswersOfOneRequestAreCountedTogether) {
  BigramModel model({.max_seq = 64, .max_batch = 4}, nullptr);
  Request r = request(9, 3, 3);
  const RequestId id = model.loop().submit(std::move(r)).value_or_throw();
  std::vector<RequestStatistics> told;
  while (model.loop().has_work())
    for (const OutputEvent& e : model.loop().step()) {
      if (e.last) told.push_back(e.statistics);
      if (!e.last) {
        EXPECT_EQ(e.statistics.generated_tokens, 0);
      }
      EXPECT_EQ(e.id, id);
    }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].generated_tokens, 9);
  EXPECT_EQ(told[0].prompt_tokens, 9);
  // Two pages of the prompt in common; of its ninth token and the answer's first two one each.
  EXPECT_EQ(told[0].pages, 2 + 3);
}

TEST(RequestStatistics, PausesAndCachedTokensAreTold) {
  // Two requests of 8 pages each, 10 pages.
  BigramModel model({.max_seq = 32, .max_batch = 2, .kv_pages = 10}, nullptr);
  const RequestId first = model.loop().submit(request(8, 24)).value_or_throw();
  Request other = request(8, 24);
  other.prompt.assign(8, 11);
  const RequestId second = model.loop().submit(std::move(other)).value_or_throw();
  auto all = model.finish_all();
  EXPECT_EQ(all.at(first).statistics.preemptions, 0);
  EXPECT_GE(all.at(second).statistics.preemptions, 1);
  EXPECT_EQ(all.at(second).statistics.preemptions, model.loop().statistics().preemptions);
  EXPECT_EQ(all.at(first).statistics.pages, 8);

  const RequestId again = model.loop().submit(request(12, 1)).value_or_throw();
  EXPECT_EQ(model.finish_all().at(again).statistics.cached_tokens, 8);
}

TEST(RequestStatistics, OneThatNeverRanHasOnlyItsTime) {
  BigramModel model({.max_seq = 32, .max_batch = 2}, nullptr);
  const RequestId id = model.loop().submit(request(8, 4)).value_or_throw();
  model.loop().cancel(id);
  const OutputEvent last = model.finish_all().at(id);
  EXPECT_EQ(last.finish, FinishReason::kCancelled);
  EXPECT_EQ(last.statistics.prompt_tokens, 8);
  EXPECT_EQ(last.statistics.generated_tokens, 0);
  EXPECT_EQ(last.statistics.pages, 0);
  EXPECT_EQ(last.statistics.first_token_seconds, 0);
}

TEST(RequestStatistics, ASearchMayBeCancelledWithMoreBeamsThanAnswers) {
  BigramModel model({.max_seq = 64, .max_batch = 8}, nullptr);
  Request r = request(4, 20);
  r.sampling.beam_width = 8;
  const RequestId id = model.loop().submit(std::move(r)).value_or_throw();
  for (int i = 0; i < 4; ++i) model.loop().step();
  model.loop().cancel(id);
  const OutputEvent last = model.finish_all().at(id);
  EXPECT_EQ(last.finish, FinishReason::kCancelled);
  EXPECT_TRUE(last.last);
  EXPECT_GE(last.statistics.generated_tokens, 8 * last.usage.completion_tokens);
  EXPECT_GE(last.statistics.pages, 2);
  model.loop().scheduler().check_integrity();
}

}  // namespace
}  // namespace ingot
