#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/grammar/matching.h"
#include <atomic>
#include <future>
#include <random>
#include <set>
#include <thread>

namespace ingot {
namespace {

using testing::HasSubstr;

// A description that takes long: rules in a chain that the check for endless ones walks again and
// again.
Grammar slow_grammar(int which) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 30000; ++i) {
    // Neither forwards nor backwards is the right order.
    const int next = (i * 7919 + 13) % 30000;
    text += fmt::format("r{} ::= \"a\" r{} | \"{}\" r{}\n", i, next, which, (i + 1) % 30001);
  }
  return ebnf(text + "r30000 ::= \"b\"\n");
}

TEST(Compiler, EqualDescriptionsAreCompiledOnce) {
  TinyCompiler tiny;
  const auto first = tiny.ready(regex("a+b"));
  const auto second = tiny.ready(regex("a+b"));
  EXPECT_EQ(first, second);
  const auto statistics = tiny.compiler.statistics();
  EXPECT_EQ(statistics.hits, 1);
  EXPECT_EQ(statistics.misses, 1);
  EXPECT_NE(tiny.ready(ebnf("root ::= \"a+b\"")), first);
  Grammar compact{.kind = GrammarKind::kJsonObject, .max_whitespace = 0};
  Grammar roomy{.kind = GrammarKind::kJsonObject, .max_whitespace = 5};
  EXPECT_NE(tiny.ready(compact), tiny.ready(roomy));
  EXPECT_NE(choice({"a", "b"}).key(), choice({"a:1:b"}).key());
}

TEST(Compiler, RefusalsAreKeptAsWell) {
  TinyCompiler tiny;
  EXPECT_THAT(tiny.refusal(regex("(")), HasSubstr("[guided.regex]"));
  EXPECT_THAT(tiny.refusal(regex("(")), HasSubstr("[guided.regex]"));
  EXPECT_EQ(tiny.compiler.statistics().hits, 1);
}

TEST(Compiler, KeepsNoMoreThanItsBytes) {
  GrammarCompilerOptions options;
  options.cache_bytes = 60'000;
  options.warm_seconds = 0;
  TinyCompiler tiny({}, options);
  std::vector<CompiledGrammarPtr> kept;
  for (int i = 0; i < 60; ++i) {
    kept.push_back(tiny.ready(regex(fmt::format("x{}[a-z]{{50}}", i))));
    EXPECT_LE(tiny.compiler.statistics().cached_bytes, options.cache_bytes);
  }
  const auto statistics = tiny.compiler.statistics();
  EXPECT_LT(statistics.cached, 60);
  EXPECT_GT(statistics.cached, 0);
  // The last is there, the first is not; both still work.
  EXPECT_EQ(tiny.ready(regex("x59[a-z]{50}")), kept.back());
  EXPECT_NE(tiny.ready(regex("x0[a-z]{50}")), kept.front());
  EXPECT_TRUE(accepts(tiny, kept.front(), "x0" + std::string(50, 'q')));
}

TEST(Compiler, WhatGrowsInUseIsMeasuredAgain) {
  GrammarCompilerOptions options;
  options.warm_seconds = 0;
  TinyCompiler tiny({}, options);
  const auto grammar = tiny.ready(regex("[a-z]{60}"));
  const auto before = grammar->bytes();
  GrammarMatcher matcher(grammar);
  for (int i = 0; i < 60; ++i) {
    mask_of(matcher);
    ASSERT_TRUE(matcher.accept(tiny.tokens.id("q")));
  }
  EXPECT_GT(grammar->bytes(), before);
  tiny.ready(regex("[a-z]{60}"));
  EXPECT_GE(tiny.compiler.statistics().cached_bytes, grammar->bytes());
}

TEST(Compiler, LimitsOfTimeEndACompilation) {
  GrammarCompilerOptions options;
  options.limits.max_seconds = 0.05;
  TinyCompiler tiny({}, options);
  EXPECT_THAT(tiny.refusal(slow_grammar(0)), HasSubstr("[guided.compile]"));
  EXPECT_TRUE(accepts(tiny, tiny.ready(regex("a")), "a"));
}

TEST(Compiler, LimitsOfSizeAreNamed) {
  GrammarCompilerOptions options;
  options.limits.max_text_bytes = 100;
  options.limits.max_choices = 3;
  options.limits.max_expressions = 20;
  TinyCompiler tiny({}, options);
  EXPECT_THAT(tiny.refusal(regex(std::string(101, 'a'))), HasSubstr("101 bytes, at most 100"));
  EXPECT_THAT(tiny.refusal(choice({"a", "b", "c", "d"})), HasSubstr("4 choices, wanted 1 to 3"));
  EXPECT_THAT(tiny.refusal(choice({})), HasSubstr("0 choices"));
  EXPECT_THAT(tiny.refusal(choice({"a", ""})), HasSubstr("a choice is empty"));
  EXPECT_THAT(tiny.refusal(choice({"\xff"})), HasSubstr("not UTF-8"));
  EXPECT_THAT(tiny.refusal(json_schema(R"({"enum":[1,2,3,4]})")), HasSubstr("4 values, at most 3"));
  EXPECT_THAT(
      tiny.refusal(regex(
          "(?:a|b|c|d|e|f|g|h|i|[jk]|[lm]){2}(?:[no]|[pq]|[rs]|[tu]|[vw])?[xy]?[za]?[bc]?[de]?")),
      HasSubstr("[guided.size]"));
}

TEST(Compiler, NobodyWaitsForOthers) {
  GrammarCompilerOptions options;
  options.threads = 2;
  options.limits.max_seconds = 30;
  TinyCompiler tiny({}, options);
  // One thread is busy; plain requests use the other.
  PendingGrammar slow = tiny.compiler.submit(slow_grammar(1));
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(accepts(tiny, tiny.ready(regex(fmt::format("a{}", i))), fmt::format("a{}", i)));
}

TEST(Compiler, ACompilationThatNobodyWantsIsStopped) {
  GrammarCompilerOptions options;
  options.threads = 1;
  options.limits.max_seconds = 600;
  TinyCompiler tiny({}, options);
  {
    PendingGrammar running = tiny.compiler.submit(slow_grammar(2));
    PendingGrammar waiting = tiny.compiler.submit(slow_grammar(3));
    EXPECT_FALSE(waiting.ready());
  }
  EXPECT_EQ(tiny.compiler.statistics().waiting, 0);
  // The only thread comes free.
  EXPECT_TRUE(accepts(tiny, tiny.ready(regex("a")), "a"));
}

TEST(Compiler, WhoStillWantsItGetsIt) {
  GrammarCompilerOptions options;
  options.threads = 1;
  TinyCompiler tiny({}, options);
  PendingGrammar busy = tiny.compiler.submit(slow_grammar(4));
  PendingGrammar kept = tiny.compiler.submit(regex("ab"));
  {
    PendingGrammar dropped = tiny.compiler.submit(regex("ab"));
  }
  busy = PendingGrammar();
  EXPECT_TRUE(kept.result().ok());
}

TEST(Compiler, TooManyWaitingAreRefused) {
  GrammarCompilerOptions options;
  options.threads = 1;
  options.max_waiting = 2;
  options.limits.max_seconds = 600;
  TinyCompiler tiny({}, options);
  std::vector<PendingGrammar> pending;
  for (int i = 0; i < 6; ++i) pending.push_back(tiny.compiler.submit(slow_grammar(10 + i)));
  const auto last = pending.back().result();
  ASSERT_FALSE(last.ok());
  EXPECT_THAT(last.error().message(), HasSubstr("grammars wait to be compiled"));
}

TEST(Compiler, TellsWhenItIsReady) {
  TinyCompiler tiny;
  std::atomic<int> calls = 0;
  PendingGrammar pending = tiny.compiler.submit(regex("abc"), [&] { ++calls; });
  EXPECT_TRUE(pending.result().ok());
  EXPECT_TRUE(pending.ready());
  while (calls == 0) std::this_thread::yield();
  EXPECT_EQ(calls, 1);
  PendingGrammar known = tiny.compiler.submit(regex("abc"), [&] { ++calls; });
  EXPECT_TRUE(known.ready());
  EXPECT_EQ(calls, 1);
}

// A class of characters and gaps, many times over: from each place hundreds of others are in reach.
Grammar dear_masks() {
  return regex("(\\w{0,20}(, )?){100}");
}

GrammarMatcher after(TinyCompiler& tiny, const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(tiny.ready(grammar));
  for (const char& c : text) EXPECT_TRUE(matcher.accept(tiny.tokens.id({&c, 1})));
  return matcher;
}

TEST(Compiler, MakesMasksForWhoHasNoTime) {
  GrammarCompilerOptions options = patient();
  options.warm_seconds = 0;
  TinyCompiler tiny(crowded_tokens(), options);
  GrammarMatcher matcher = after(tiny, {.kind = GrammarKind::kJsonObject}, "{\"a\": [");
  std::vector<std::uint32_t> mask(matcher.mask_words());
  grammar::MaskBudget none{.seconds = 0};
  ASSERT_FALSE(matcher.fill_mask(mask, none).has_value());
  std::promise<void> told;
  const PendingMasks pending = tiny.compiler.make_masks(matcher, 300, [&] { told.set_value(); });
  told.get_future().wait();
  ASSERT_TRUE(pending.ready());
  EXPECT_TRUE(pending.result().made);
  EXPECT_GT(pending.result().seconds, 0);
  EXPECT_TRUE(matcher.fill_mask(mask, none).value());
}

TEST(Compiler, MasksThatTakeTooLongOrNobodyWantsAreGivenUp) {
  GrammarCompilerOptions options = patient();
  options.warm_seconds = 0;
  options.threads = 1;
  std::set<std::string> words;
  std::mt19937 random(3);
  while (words.size() < 5000) {
    std::string word;
    for (auto size = 2 + random() % 10; size > 0; --size) word += "ab ,"[random() % 4];
    words.insert(word);
  }
  TinyCompiler tiny({words.begin(), words.end()}, options);
  const GrammarMatcher matcher = after(tiny, dear_masks(), "ab, a");
  std::promise<void> told;
  const PendingMasks late = tiny.compiler.make_masks(matcher, 0.001, [&] { told.set_value(); });
  told.get_future().wait();
  EXPECT_FALSE(late.result().made);
  EXPECT_GE(late.result().seconds, 0.001);
  {
    const PendingMasks dropped = tiny.compiler.make_masks(matcher, 1e9, [] {});
    const PendingMasks never_started = tiny.compiler.make_masks(matcher, 1e9, [] {});
  }
  EXPECT_EQ(tiny.refusal(regex("a")), "");  // the one thread is free again
  const PendingMasks running = tiny.compiler.make_masks(matcher, 1e9, [] {});
}  // and closing the compiler waits for nothing

TEST(Compiler, ClosingItEndsWhatRuns) {
  auto tiny = std::make_unique<TinyCompiler>(std::vector<std::string>{},
                                             GrammarCompilerOptions{.threads = 1});
  PendingGrammar running = tiny->compiler.submit(slow_grammar(5));
  PendingGrammar waiting = tiny->compiler.submit(regex("b"));
  tiny.reset();
  EXPECT_FALSE(running.result().ok());
  EXPECT_FALSE(waiting.result().ok());
}

TEST(CompilerThreads, ManyThreadsShareGrammarsAndMasks) {
  TinyCompiler tiny({"ab", "ba", "\":", "\", \""});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const auto result = tiny.compiler.compile(json_schema(
            fmt::format(R"({{"properties":{{"a{}":{{"type":"string"}}}}}})", (i + t) % 4)));
        if (!result.ok()) {
          ++wrong;
          continue;
        }
        GrammarMatcher matcher(*result);
        for (const char byte : fmt::format("{{\"a{}\":\"xy", (i + t) % 4)) {
          const auto id = tiny.tokens.id(std::string(1, byte));
          if (!is_allowed(mask_of(matcher), id) || !matcher.accept(id)) ++wrong;
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ingot
