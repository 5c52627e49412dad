#include "runtime/scheduler.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ingot {
namespace {

std::unique_ptr<Sequence> sequence(RequestId id, std::size_t prompt, std::size_t answer) {
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->tokens.assign(prompt, static_cast<std::int32_t>(id));
  s->prompt_tokens = prompt;
  s->limit = prompt + answer;
  return s;
}

// What every step must satisfy, whatever the trace.
void check_step(const ScheduledStep& step, const SchedulerLimits& limits) {
  const Batch& b = step.batch;
  ASSERT_LE(b.tokens(), limits.max_tokens);
  ASSERT_LE(b.sequences(), limits.max_sequences);
  ASSERT_EQ(b.query_start.size(), step.sequences.size() + 1);
  ASSERT_EQ(static_cast<std::int64_t>(b.block_table.size()), b.sequences() * b.pages);
  std::map<std::int32_t, int> slots;
  for (const std::int32_t slot : b.slots) ASSERT_EQ(slots[slot]++, 0) << "two tokens in one slot";
  bool prefill_seen = false;
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    const Sequence& s = *step.sequences[i];
    const auto count = static_cast<std::size_t>(b.query_start[i + 1] - b.query_start[i]);
    ASSERT_GE(count, 1u);
    ASSERT_EQ(static_cast<std::size_t>(b.context_len[i]), s.cached + count);
    const bool decodes = s.tokens.size() - s.cached == 1;
    ASSERT_FALSE(decodes && prefill_seen) << "decodes come first";
    prefill_seen |= !decodes;
    for (std::size_t t = 0; t < count; ++t) {
      const auto at = static_cast<std::size_t>(b.query_start[i]) + t;
      const std::size_t position = s.cached + t;
      ASSERT_EQ(static_cast<std::size_t>(b.positions[at]), position);
      ASSERT_EQ(b.ids[at], s.tokens[position]);
      const auto page = s.pages[position / static_cast<std::size_t>(limits.page_tokens)];
      ASSERT_EQ(b.slots[at], page * limits.page_tokens +
                                 static_cast<std::int64_t>(position) % limits.page_tokens);
    }
  }
}

TEST(SchedulerTest, RandomTracesKeepTheBooksAndFinishInOrder) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return random() % n; };
    const SchedulerLimits limits{.max_tokens = 4 + static_cast<std::int64_t>(below(30)),
                                 .max_sequences = 1 + static_cast<std::int64_t>(below(4)),
                                 .page_tokens = 1 + static_cast<std::int64_t>(below(8)),
                                 .kv_pages = 20 + static_cast<std::int64_t>(below(60))};
    Scheduler scheduler(limits);
    RequestId next_id = 1;
    int open = 0;
    int rounds = 0;
    while (next_id <= 12 || scheduler.has_work()) {
      ASSERT_LT(++rounds, 3000) << "no progress, seed " << seed;
      if (next_id <= 12 && below(3) == 0) {
        auto s = sequence(next_id++, 1 + below(40), 1 + below(12));
        if (scheduler.fits(s->limit)) {
          scheduler.add(std::move(s));
          ++open;
        }
      }
      if (below(20) == 0) {
        const RequestId victim = 1 + below(12);
        if (scheduler.find(victim)) {
          scheduler.remove(victim);
          --open;
        }
      }
      const ScheduledStep step = scheduler.next();
      ASSERT_FALSE(scheduler.has_work() && step.sequences.empty()) << "deadlock, seed " << seed;
      if (step.sequences.empty()) continue;
      check_step(step, limits);
      scheduler.commit(step);
      for (Sequence* s : step.sampled) {
        s->tokens.push_back(7);
        if (s->tokens.size() >= s->limit || below(10) == 0) {
          scheduler.remove(s->id);
          --open;
        }
      }
      scheduler.check_integrity();
    }
    EXPECT_EQ(open, 0);
    EXPECT_EQ(scheduler.pool().free_pages(), limits.kv_pages);
  }
}

TEST(SchedulerTest, APromptLongerThanAStepGoesInChunks) {
  Scheduler scheduler({.max_tokens = 8, .max_sequences = 2, .page_tokens = 4, .kv_pages = 16});
  Sequence& s = scheduler.add(sequence(1, 19, 1));
  std::vector<std::int64_t> chunks;
  while (s.cached < 19) {
    const ScheduledStep step = scheduler.next();
    chunks.push_back(step.batch.tokens());
    EXPECT_EQ(step.sampled.size(),
              s.cached + static_cast<std::size_t>(step.batch.tokens()) == 19 ? 1u : 0u);
    scheduler.commit(step);
  }
  EXPECT_EQ(chunks, (std::vector<std::int64_t>{8, 8, 3}));
}

TEST(SchedulerTest, ADecodeIsNotHeldUpByALongPrompt) {
  Scheduler scheduler({.max_tokens = 8, .max_sequences = 2, .page_tokens = 4, .kv_pages = 32});
  Sequence& decoding = scheduler.add(sequence(1, 2, 10));
  ScheduledStep step = scheduler.next();
  scheduler.commit(step);
  decoding.tokens.push_back(5);
  scheduler.add(sequence(2, 40, 1));
  step = scheduler.next();
  ASSERT_EQ(step.sequences.size(), 2u);
  EXPECT_EQ(step.sequences[0], &decoding);
  EXPECT_EQ(step.batch.query_start, (std::vector<std::int32_t>{0, 1, 8}));
}

TEST(BlockPoolTest, FindsBooksThatDoNotAgree) {
  BlockPool pool(4);
  std::vector<PageId> pages;
  ASSERT_TRUE(pool.try_allocate(3, pages));
  const std::vector<PageId>* holders[] = {&pages};
  pool.check_integrity(holders);
  EXPECT_FALSE(pool.try_allocate(2, pages));
  std::vector<PageId> fewer(pages.begin(), pages.begin() + 2);
  const std::vector<PageId>* wrong[] = {&fewer};
  EXPECT_THROW(pool.check_integrity(wrong), Error);
  pool.release(pages);
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_THROW(pool.release(fewer), Error);
}

}  // namespace
}  // namespace ingot
