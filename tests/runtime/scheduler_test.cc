#include "runtime/scheduler.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ingot {
namespace {

constexpr SchedulerLimits kLimits{
    .max_tokens = 8, .max_sequences = 2, .max_pages = 32, .page_tokens = 4, .kv_pages = 32};

// A request whose prompt counts up from 0, or is all `fill`.
std::unique_ptr<SequenceGroup> request(RequestId id, std::size_t prompt, std::size_t answer,
                                       std::int32_t fill = -1) {
  auto group = std::make_unique<SequenceGroup>();
  group->id = id;
  group->prompt_tokens = prompt;
  group->limit = prompt + answer;
  group->order = static_cast<std::int64_t>(id);
  group->members.push_back(std::make_unique<Sequence>());
  auto& tokens = group->members[0]->tokens;
  tokens.resize(prompt, fill);
  if (fill < 0) std::iota(tokens.begin(), tokens.end(), 0);
  return group;
}

// One step; every answer that computed its last token gets another.
ScheduledStep& run(Scheduler& scheduler, std::int32_t token = 9) {
  ScheduledStep& step = scheduler.next(0);
  scheduler.commit(step);
  for (const auto& e : step.entries)
    if (e.sequence->left() == 0) e.sequence->tokens.push_back(token);
  scheduler.check_integrity();
  return step;
}

TEST(SchedulerTest, APromptLongerThanAStepGoesInChunks) {
  Scheduler scheduler(kLimits);
  scheduler.add(request(1, 19, 1), "");
  std::vector<std::int64_t> chunks;
  for (int i = 0; i < 3; ++i) {
    const ScheduledStep& step = run(scheduler);
    chunks.push_back(step.batch.tokens());
    EXPECT_EQ(step.rows.size(), i == 2 ? 1u : 0u);
  }
  EXPECT_EQ(chunks, (std::vector<std::int64_t>{8, 8, 3}));
}

TEST(SchedulerTest, ADecodeIsNotHeldUpByALongPrompt) {
  Scheduler scheduler(kLimits);
  Sequence& decoding = *scheduler.add(request(1, 2, 10), "").members[0];
  run(scheduler);
  scheduler.add(request(2, 40, 1), "");
  const ScheduledStep& step = run(scheduler);
  ASSERT_EQ(step.entries.size(), 2u);
  EXPECT_EQ(step.entries[0].sequence, &decoding);
  EXPECT_EQ(step.batch.query_start, (std::vector<std::int32_t>{0, 1, 8}));
  EXPECT_EQ(step.decode_tokens, 1);
}

TEST(SchedulerTest, APromptThatBeginsAlikeIsReadOnce) {
  Scheduler scheduler(kLimits);
  scheduler.add(request(1, 18, 2), "tenant");
  while (scheduler.has_work()) {
    run(scheduler);
    if (scheduler.find(1)->members[0]->tokens.size() == 20) scheduler.remove(1);
  }
  const auto tokens_of_first_step = [&](RequestId id, const char* salt, bool share) {
    auto group = request(id, 18, 2);
    group->share = share;
    scheduler.add(std::move(group), salt);
    const std::int64_t tokens = run(scheduler).batch.tokens();
    scheduler.remove(id);
    return tokens;
  };
  EXPECT_EQ(tokens_of_first_step(2, "tenant", true), 2);  // 16 of 18 are whole pages
  EXPECT_EQ(tokens_of_first_step(3, "other", true), 8);
  EXPECT_EQ(tokens_of_first_step(4, "tenant", false), 8);
  // All but the last token could be there; a whole page of it is computed again.
  Scheduler whole(kLimits);
  whole.add(request(1, 8, 1), "");
  run(whole);
  whole.remove(1);
  whole.add(request(2, 8, 1), "");
  EXPECT_EQ(run(whole).batch.tokens(), 4);
}

// Long contexts of some models are rotated otherwise than short ones.
TEST(SchedulerTest, RequestsThatAreRotatedDifferentlyShareNothing) {
  Scheduler scheduler(kLimits);
  const auto tokens_of_first_step = [&](RequestId id, std::int32_t rope_row) {
    auto group = request(id, 8, 1);
    group->rope_row = rope_row;
    scheduler.add(std::move(group), "");
    const std::int64_t tokens = run(scheduler).batch.tokens();
    scheduler.remove(id);
    return tokens;
  };
  EXPECT_EQ(tokens_of_first_step(1, 0), 8);
  EXPECT_EQ(tokens_of_first_step(2, 1), 8);
  EXPECT_EQ(tokens_of_first_step(3, 0), 4);
  EXPECT_EQ(tokens_of_first_step(4, 1), 4);
}

TEST(SchedulerTest, TheYoungestIsPausedWhenPagesRunOut) {
  SchedulerLimits limits = kLimits;
  limits.kv_pages = 5;
  Scheduler scheduler(limits);
  SequenceGroup& old = scheduler.add(request(1, 4, 12, 1), "");
  SequenceGroup& young = scheduler.add(request(2, 4, 12, 2), "");
  while (young.preemptions == 0) run(scheduler);
  EXPECT_EQ(old.phase, Phase::kRunning);
  EXPECT_EQ(scheduler.state(2).phase, Phase::kWaiting);
  EXPECT_EQ(scheduler.state(2).reason, WaitReason::kPages);
  EXPECT_GT(scheduler.state(2).pages_wanted, scheduler.state(2).pages_free);
  while (old.members[0]->tokens.size() < 16) run(scheduler);
  scheduler.remove(1);
  run(scheduler);
  EXPECT_EQ(young.phase, Phase::kRunning);
}

TEST(SchedulerTest, WithGuaranteesNobodyIsPaused) {
  SchedulerLimits limits = kLimits;
  limits.kv_pages = 5;
  limits.policy = SchedulerPolicy::kGuaranteedNoEvict;
  Scheduler scheduler(limits);
  scheduler.add(request(1, 4, 12, 1), "");
  SequenceGroup& next = scheduler.add(request(2, 4, 12, 2), "");
  for (int i = 0; i < 11; ++i) run(scheduler);
  EXPECT_EQ(next.phase, Phase::kWaiting);
  EXPECT_EQ(scheduler.state(2).reason, WaitReason::kPages);
  EXPECT_EQ(scheduler.preemptions(), 0);
  scheduler.remove(1);
  run(scheduler);
  EXPECT_EQ(next.phase, Phase::kRunning);
}

TEST(SchedulerTest, SaysWhyARequestWaits) {
  Scheduler scheduler(kLimits);
  for (RequestId id = 1; id <= 4; ++id) scheduler.add(request(id, 1, 3), "");
  auto unready = request(5, 1, 3);
  unready->order = -1;
  unready->ready = false;
  scheduler.add(std::move(unready), "");
  run(scheduler);
  EXPECT_EQ(scheduler.state(1).phase, Phase::kRunning);
  EXPECT_EQ(scheduler.state(3).reason, WaitReason::kRows);
  EXPECT_EQ(scheduler.state(4).reason, WaitReason::kQueue);
  EXPECT_EQ(scheduler.state(4).ahead, 1);
  // Who is not ready holds up nobody, and comes first when it is.
  EXPECT_EQ(scheduler.state(5).reason, WaitReason::kNotReady);
  scheduler.set_ready(5);
  scheduler.remove(1);
  run(scheduler);
  EXPECT_EQ(scheduler.state(5).phase, Phase::kRunning);
  EXPECT_EQ(scheduler.state(99).phase, Phase::kGone);

  SchedulerLimits limits = kLimits;
  limits.max_sequences = 4;
  Scheduler full(limits);
  full.add(request(1, 20, 1, 1), "");
  full.add(request(2, 1, 1, 2), "");
  run(full);
  EXPECT_EQ(full.state(2).reason, WaitReason::kBudget);
}

// Requests that wait for something else take no place, and start when they are ready.
TEST(SchedulerTest, WhoIsNotReadyHoldsUpNobody) {
  Scheduler scheduler(kLimits);
  const auto finish = [&] {
    for (int steps = 0; steps < 200; ++steps) {
      const ScheduledStep& step = run(scheduler);
      if (step.entries.empty()) return;
      for (const auto& e : step.entries)
        if (e.sequence->tokens.size() == e.group->limit) scheduler.remove(e.group->id);
    }
    FAIL() << "requests that never end";
  };
  for (RequestId id = 1; id <= 4; ++id) {
    auto unready = request(id, 3, 2);
    unready->ready = false;
    scheduler.add(std::move(unready), "");
  }
  for (RequestId id = 5; id <= 24; ++id) scheduler.add(request(id, 3, 2), "");
  finish();
  EXPECT_EQ(scheduler.waiting(), 4u);
  EXPECT_EQ(scheduler.state(4).reason, WaitReason::kNotReady);
  for (RequestId id = 1; id <= 4; ++id) scheduler.set_ready(id);
  finish();
  EXPECT_FALSE(scheduler.has_work());
}

TEST(SchedulerTest, WhoSitsOutKeepsItsPlace) {
  Scheduler scheduler(kLimits);
  SequenceGroup& first = scheduler.add(request(1, 3, 4), "");
  SequenceGroup& second = scheduler.add(request(2, 3, 4), "");
  EXPECT_EQ(run(scheduler).entries.size(), 2u);
  const std::int32_t row = first.members[0]->row;
  first.sits_out = true;
  for (int steps = 0; steps < 2; ++steps) {
    const ScheduledStep& step = run(scheduler);
    ASSERT_EQ(step.entries.size(), 1u);
    EXPECT_EQ(step.entries[0].group, &second);
  }
  first.sits_out = false;
  EXPECT_EQ(run(scheduler).entries.size(), 2u);
  EXPECT_EQ(first.members[0]->row, row);
  EXPECT_EQ(scheduler.preemptions(), 0);
  EXPECT_EQ(first.generated(*first.members[0]) + 2, second.generated(*second.members[0]));
}

// However many short ones follow it, a long prompt is read in a number of steps that is known.
TEST(SchedulerTest, AStreamOfShortRequestsDoesNotStarveALongOne) {
  SchedulerLimits limits = kLimits;
  limits.max_sequences = 4;
  limits.kv_pages = 64;
  Scheduler scheduler(limits);
  RequestId last = 1;
  scheduler.add(request(last, 100, 2, 7), "");
  for (int steps = 0; scheduler.find(1); ++steps) {
    // Three others decode in each step, so five tokens are left of eight.
    ASSERT_LT(steps, 100 / 5 + 5);
    for (int i = 0; i < 2; ++i) scheduler.add(request(++last, 2, 3, 3), "");
    const ScheduledStep& step = run(scheduler);
    for (const auto& e : step.entries)
      if (e.sequence->tokens.size() == e.group->limit) scheduler.remove(e.group->id);
  }
}

TEST(SchedulerTest, AWindowGivesItsPagesBack) {
  SchedulerLimits limits = kLimits;
  limits.reach.window = 6;
  limits.kv_pages = 7;  // a window and a step
  Scheduler scheduler(limits);
  ASSERT_TRUE(scheduler.fits(60, 64, 1));
  Sequence& s = *scheduler.add(request(1, 60, 4), "").members[0];
  while (s.tokens.size() < 64) {
    run(scheduler);
    EXPECT_LE(scheduler.cache().held(s.chain), 4);
  }
  EXPECT_EQ(scheduler.preemptions(), 0);
}

// What a window has passed need not be there to go on behind it.
TEST(SchedulerTest, AWindowFindsAPromptByThePagesThatItSees) {
  for (const std::int64_t sinks : {0, 5}) {
    SCOPED_TRACE(sinks);
    SchedulerLimits limits = kLimits;
    limits.reach.window = 6;
    limits.reach.sink_tokens = sinks;
    limits.kv_pages = 10;
    Scheduler scheduler(limits);
    const auto tokens_to_read = [&](RequestId id, std::int32_t fill) {
      Sequence& s = *scheduler.add(request(id, 60, 1, fill), "").members[0];
      std::int64_t tokens = 0;
      while (s.tokens.size() == 60) tokens += run(scheduler).batch.tokens();
      scheduler.remove(id);
      return tokens;
    };
    EXPECT_EQ(tokens_to_read(1, 1), 60);
    EXPECT_GT(scheduler.cache().statistics().evictions, 0) << "its beginning is not there";
    EXPECT_EQ(tokens_to_read(2, 1), 4);
    // Another prompt takes all pages, and then nothing of the first one is of use.
    EXPECT_EQ(tokens_to_read(3, 2), 60);
    EXPECT_EQ(tokens_to_read(4, 1), 60);
    EXPECT_EQ(tokens_to_read(5, 1), 4) << "found again under its old names";
  }
}

// Answers that part after a long prompt have its pages in common under a window as well, also when
// they were paused.
TEST(SchedulerTest, UnderAWindowAnswersShareTheirPrompt) {
  SchedulerLimits limits = kLimits;
  limits.max_sequences = 3;
  limits.policy = SchedulerPolicy::kGuaranteedNoEvict;
  const auto least = [&](std::int64_t window, std::int64_t step) {
    limits.reach.window = window;
    limits.max_tokens = step;
    for (limits.kv_pages = 1; !Scheduler(limits).fits(97, 128, 3);) ++limits.kv_pages;
    return limits.kv_pages;
  };
  EXPECT_EQ(least(0, 64), 24 + 3 * 8) << "whole pages of the prompt, and each answer's own";
  EXPECT_EQ(least(24, 8), 3 * 10) << "what each holds at most";
  EXPECT_EQ(least(128, 64), 24 + 3 * 8) << "nothing is passed";
  EXPECT_EQ(least(100, 64), 24 + 3 * 8 + 24) << "and a prompt that one reads again";
  for (const int pause_after : {0, 3, 20}) {
    Scheduler scheduler(limits);
    auto asked = request(1, 97, 31);
    asked->width = 3;
    SequenceGroup& group = scheduler.add(std::move(asked), "");
    for (int steps = 0; group.members.empty() || group.members[0]->tokens.size() < 128; ++steps) {
      ASSERT_LT(steps, 100);
      ScheduledStep& step = scheduler.next(0);
      scheduler.commit(step);
      if (group.members.size() == 1 && group.members[0]->left() == 0)
        scheduler.fork(group, std::vector<std::uint64_t>{1, 2});
      for (const auto& s : group.members)
        if (s->left() == 0 && s->tokens.size() < 128) s->tokens.push_back(9 + s->index);
      scheduler.check_integrity();
      if (steps == pause_after && pause_after > 0) {
        scheduler.hold(group);
        scheduler.set_ready(1);
      }
    }
    EXPECT_EQ(scheduler.preemptions(), 0);
  }
}

TEST(SchedulerTest, SinksStayWhenAWindowHasPassed) {
  SchedulerLimits limits = kLimits;
  limits.reach.window = 6;
  limits.reach.sink_tokens = 5;
  limits.kv_pages = 8;  // two pages of sinks, a window and a step
  Scheduler scheduler(limits);
  ASSERT_TRUE(scheduler.fits(60, 64, 1));
  limits.kv_pages = 6;
  EXPECT_FALSE(Scheduler(limits).fits(60, 64, 1));
  Sequence& s = *scheduler.add(request(1, 60, 4), "").members[0];
  std::vector<PageId> first;
  while (s.tokens.size() < 64) {
    run(scheduler);
    if (first.empty()) first.assign(s.chain.pages.begin(), s.chain.pages.begin() + 2);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), s.chain.pages.begin()));
    EXPECT_LE(scheduler.cache().held(s.chain), 6);
  }
  EXPECT_EQ(s.chain.pages[2], kNoPage);
  EXPECT_EQ(scheduler.preemptions(), 0);
}

TEST(SchedulerTest, AWindowThatWasPausedGoesOnWhereItWas) {
  SchedulerLimits limits = kLimits;
  limits.reach.window = 6;
  limits.kv_pages = 5;  // windows of two take six at times
  Scheduler scheduler(limits);
  const SequenceGroup& young = scheduler.add(request(2, 4, 60, 2), "");
  while (young.members[0]->tokens.size() < 23) run(scheduler);
  scheduler.add(request(1, 7, 60, 1), "");
  for (int i = 0; i < 20 && young.preemptions == 0; ++i) run(scheduler);
  ASSERT_EQ(young.preemptions, 1);
  EXPECT_GT(scheduler.cache().statistics().evictions, 0) << "its beginning is not there";
  scheduler.remove(1);
  EXPECT_LE(run(scheduler).batch.tokens(), limits.page_tokens);
}

TEST(SchedulerTest, PagesMoveToHostMemoryAndBack) {
  SchedulerLimits limits = kLimits;
  limits.kv_pages = 5;
  limits.host_pages = 5;
  Scheduler scheduler(limits);
  scheduler.add(request(1, 17, 1, 1), "");
  while (scheduler.find(1)->members[0]->tokens.size() == 17) run(scheduler);
  scheduler.remove(1);
  scheduler.add(request(2, 17, 1, 2), "");
  while (scheduler.find(2)->members[0]->tokens.size() == 17) run(scheduler);
  EXPECT_EQ(scheduler.cache().statistics().to_host, 4);
  scheduler.remove(2);
  scheduler.add(request(3, 17, 1, 1), "");
  const ScheduledStep& step = run(scheduler);
  EXPECT_EQ(step.batch.tokens(), 1);
  EXPECT_EQ(scheduler.cache().statistics().from_host, 4);
}

TEST(SchedulerTest, ThePriorityOfPagesDecidesWhichGo) {
  SchedulerLimits limits = kLimits;
  limits.kv_pages = 6;
  Scheduler scheduler(limits);
  const auto cached = [&](RequestId id, std::int32_t fill, Retention retention, double now) {
    auto group = request(id, 9, 1, fill);
    group->members[0]->chain.retention = retention;
    scheduler.add(std::move(group), "");
    std::int64_t tokens = 0;
    while (scheduler.find(id)->members[0]->tokens.size() == 9) {
      const ScheduledStep& step = scheduler.next(now);
      tokens += step.batch.tokens();
      scheduler.commit(step);
      if (step.entries[0].sequence->left() == 0) step.entries[0].sequence->tokens.push_back(9);
    }
    scheduler.remove(id);
    return 9 - tokens;
  };
  cached(1, 1, {.priority = 80}, 0);
  cached(2, 2, {}, 0);
  cached(3, 3, {}, 0);
  EXPECT_EQ(cached(4, 1, {}, 0), 8) << "kept, though it is the oldest";
  cached(5, 5, {.priority = 80, .seconds = 5}, 1);
  cached(6, 6, {}, 10);
  cached(7, 7, {}, 10);
  EXPECT_EQ(cached(8, 1, {}, 10), 8);
  EXPECT_EQ(cached(9, 5, {}, 10), 0) << "its time was over";
}

TEST(SchedulerTest, BooksThatDoNotAgreeAreFound) {
  Scheduler scheduler(kLimits);
  Sequence& s = *scheduler.add(request(1, 10, 5), "").members[0];
  run(scheduler);
  s.chain.pages.push_back(7);
  EXPECT_THROW(scheduler.check_integrity(), Error);
  s.chain.pages.pop_back();
  scheduler.check_integrity();
  std::swap(s.chain.pages[0], s.chain.pages[1]);
  EXPECT_THROW(scheduler.check_integrity(), Error);
}

TEST(KvCacheTest, WhatLiesInHostMemoryComesAsFarAsThereIsRoom) {
  KvCache cache({.pages = 4, .host_pages = 4, .page_tokens = 2});
  const CacheRoot root = cache.open_root("", true);
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  PageChain chain{.root = root}, other{.root = root};
  ASSERT_TRUE(cache.try_grow(chain, 8));
  cache.publish(chain, tokens, 8);
  cache.release(chain, KvCache::After::kKeep);
  ASSERT_TRUE(cache.try_grow(other, 8));
  EXPECT_EQ(cache.statistics().to_host, 4);
  for (const std::size_t room : {0, 1, 3}) {
    cache.shrink(other, 8 - 2 * room);
    EXPECT_EQ(cache.attach(chain, tokens, 4), 2 * room);
    cache.check_integrity(std::vector<const PageChain*>{&chain, &other});
    cache.release(chain, KvCache::After::kKeep);
  }
  cache.release(other, KvCache::After::kForget);
  cache.close_root(root);
}

TEST(BlockPoolTest, APageIsReferencedFreeOrKept) {
  BlockPool pool(3);
  const PageId a = pool.try_allocate(), b = pool.try_allocate(), c = pool.try_allocate();
  EXPECT_EQ(pool.try_allocate(), kNoPage);
  std::vector<std::int32_t> counted = {1, 1, 1};
  std::vector<char> kept = {0, 0, 0};
  pool.check_integrity(counted, kept);
  EXPECT_TRUE(pool.drop_reference(b));
  counted[static_cast<std::size_t>(b)] = 0;
  EXPECT_THROW(pool.check_integrity(counted, kept), Error);  // neither free nor kept
  kept[static_cast<std::size_t>(b)] = 1;
  pool.check_integrity(counted, kept);
  pool.free(b);
  EXPECT_THROW(pool.check_integrity(counted, kept), Error);  // both
  EXPECT_THROW((void)pool.drop_reference(b), Error);
  EXPECT_THROW(pool.free(a), Error);
  EXPECT_EQ(pool.try_allocate(), b);
  pool.add_reference(c);
  EXPECT_FALSE(pool.drop_reference(c));
}

}  // namespace
}  // namespace ingot
