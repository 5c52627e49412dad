#include "runtime/sampler.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include "tests/runtime/allocation_count.h"
#include "tests/runtime/sampling_reference.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>

namespace ingot {
namespace {

using test::reference_distribution;
using test::SamplingCase;

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, -1.0f, 0.5f, 2.9f};

std::vector<std::uint32_t> mask_of(const std::vector<bool>& allowed) {
  std::vector<std::uint32_t> mask((allowed.size() + 31) / 32);
  for (std::size_t i = 0; i < allowed.size(); ++i)
    if (allowed[i]) mask[i / 32] |= 1u << (i % 32);
  return mask;
}

// The state goes through the sequence with detours: drafts that are taken back leave no trace.
SamplingState state_of(const SamplingCase& c) {
  SamplingState state(c.params, c.prompt);
  for (std::size_t i = 0; i < c.answer.size(); ++i) {
    for (std::size_t d = 0; d < i % 3; ++d) state.push(c.answer[(i + d) / 2]);
    state.pop(i % 3);
    state.push(c.answer[i]);
  }
  return state;
}

// Draws of one case with many seeds.
class Drawer {
 public:
  explicit Drawer(const SamplingCase& c)
      : case_(c), state_(state_of(c)), mask_(mask_of(c.allowed)) {}
  std::uint64_t position() const { return case_.prompt.size() + case_.answer.size(); }
  std::int32_t draw(std::uint64_t seed) {
    return sampler_.draw(case_.logits, case_.params,
                         {.state = state_,
                          .seed = seed,
                          .position = position(),
                          .forbidden = case_.forbidden,
                          .token_mask = mask_});
  }

 private:
  const SamplingCase& case_;
  SamplingState state_;
  std::vector<std::uint32_t> mask_;
  Sampler sampler_;
};

std::int32_t draw(const SamplingCase& c, std::uint64_t seed = 0) {
  return Drawer(c).draw(seed);
}

// Pearson's statistic of 20,000 draws against the reference; 99.9 % of right samplers stay below
// the bound. Cells with fewer than five expected draws count as one.
void expect_distribution(const SamplingCase& c) {
  const std::vector<double> wanted = reference_distribution(c);
  Drawer drawer(c);
  std::vector<int> seen(c.logits.size());
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i)
    ++seen[static_cast<std::size_t>(drawer.draw(static_cast<std::uint64_t>(i)))];
  double chi2 = 0, rare = 0, rare_seen = 0;
  int free_cells = -1;
  const auto count = [&](double drawn, double expected) {
    chi2 += (drawn - expected) * (drawn - expected) / expected;
    ++free_cells;
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double expected = wanted[i] * kDraws;
    if (wanted[i] == 0) {
      EXPECT_EQ(seen[i], 0) << "token " << i << " is outside the set";
    } else if (expected < 5) {
      rare += expected;
      rare_seen += seen[i];
    } else {
      count(seen[i], expected);
    }
  }
  if (rare > 1) count(rare_seen, rare);
  EXPECT_LT(chi2, free_cells + 4.7 * std::sqrt(2.0 * std::max(1, free_cells)) + 4);
}

TEST(SamplerTest, EveryParameterAloneDrawsFromItsDistribution) {
  const std::vector<std::int32_t> prompt = {1, 2, 4}, answer = {5, 1, 5, 3};
  const auto expect = [&](const SamplingParams& p) {
    expect_distribution({.logits = kLogits, .params = p, .prompt = prompt, .answer = answer});
  };
  expect({.temperature = 1.0});
  expect({.temperature = 0.5});
  expect({.temperature = 5.0});
  expect({.top_k = 3});
  expect({.top_p = 0.7});
  expect({.top_p = 0.99, .top_p_decay = 0.8, .top_p_min = 0.3});
  expect({.top_p = 0.99, .top_p_decay = 0.5, .top_p_min = 0.3});
  expect({.top_p = 0.99, .top_p_decay = 0.5, .top_p_min = 0.3, .top_p_reset_id = 5});
  expect({.temperature = 5.0, .min_p = 0.5});
  expect({.temperature = 3.0, .typical_p = 0.4});
  expect({.typical_p = 0.8});
  expect({.repetition_penalty = 1.8});
  expect({.repetition_penalty = 0.7});
  expect({.presence_penalty = 1.5});
  expect({.frequency_penalty = 0.7});
  expect({.presence_penalty = -0.5});
  expect({.no_repeat_ngram_size = 1});
  expect({.no_repeat_ngram_size = 2});
  expect({.logit_bias = {{3, 3.5}, {1, -100}, {0, 0.3}}});
  expect({.bad_token_ids = {{1}, {5, 3, 2}, {5, 5}, {4, 5, 1, 5, 3, 0}}});
}

TEST(SamplerTest, ForbiddenAndMaskedTokensAreNeverDrawn) {
  expect_distribution({.logits = kLogits, .params = {}, .forbidden = {1, 5}});
  expect_distribution(
      {.logits = kLogits, .params = {}, .allowed = {true, false, true, true, false, true}});
  // What lies past the end of the mask is not allowed either.
  std::vector<float> logits(70, 1.0f);
  std::vector<bool> allowed(64, true);
  allowed[0] = allowed[33] = false;
  SamplingCase c{.logits = logits, .params = {}, .allowed = allowed};
  c.allowed.resize(70);
  const std::vector<std::uint32_t> mask = mask_of(allowed);
  ASSERT_EQ(mask.size(), 2u);
  Sampler sampler;
  const SamplingState state({}, {});
  std::set<std::int32_t> drawn;
  for (std::uint64_t seed = 0; seed < 3000; ++seed)
    drawn.insert(sampler.draw(logits, {}, {.state = state, .seed = seed, .token_mask = mask}));
  EXPECT_EQ(drawn.size(), 62u);
  EXPECT_FALSE(drawn.contains(0) || drawn.contains(33));
  EXPECT_LT(*drawn.rbegin(), 64);
}

TEST(SamplerTest, ParametersActInTheDocumentedOrder) {
  const std::vector<std::int32_t> prompt = {1, 2, 4, 1}, answer = {5, 1, 5, 3};
  const auto expect = [&](const SamplingParams& p) {
    expect_distribution({.logits = kLogits, .params = p, .prompt = prompt, .answer = answer});
  };
  expect({.temperature = 2.0, .top_k = 5, .top_p = 0.9, .min_p = 0.3});
  expect({.temperature = 4.0, .top_k = 4, .top_p = 0.6});
  expect({.temperature = 0.7, .top_p = 0.8, .min_p = 0.1});
  expect({.temperature = 3.0, .top_k = 5, .typical_p = 0.6});
  expect({.temperature = 3.0, .top_p = 0.9, .min_p = 0.05, .typical_p = 0.6});
  expect(
      {.top_p = 0.9, .repetition_penalty = 1.5, .presence_penalty = 0.4, .frequency_penalty = 0.2});
  expect({.temperature = 2.0,
          .top_k = 4,
          .top_p = 0.95,
          .top_p_decay = 0.9,
          .min_p = 0.01,
          .typical_p = 0.9,
          .repetition_penalty = 1.2,
          .presence_penalty = 0.3,
          .frequency_penalty = 0.1,
          .no_repeat_ngram_size = 3,
          .logit_bias = {{3, 2.0}, {2, -0.5}},
          .bad_token_ids = {{3, 4}}});
}

// Random cases of every size: the token is the one that the reference's distribution function has
// at the draw's random number, which is within rounding of no boundary.
TEST(SamplerTest, DrawsAreTheInverseOfTheReference) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(random() % n); };
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + below(values.size()));
  };
  int close = 0;
  constexpr int kCases = 3000;
  for (int i = 0; i < kCases; ++i) {
    const auto vocab = static_cast<std::size_t>(one_of({1, 2, 7, 40, 255, 256, 257, 1100, 3000}));
    SamplingCase c{.logits = std::vector<float>(vocab), .params = {}};
    std::normal_distribution<float> logit(0, static_cast<float>(one_of({0.01, 1, 4, 20})));
    for (float& x : c.logits) x = logit(random);
    if (below(4) == 0)  // equals
      for (float& x : c.logits) x = std::round(x);
    SamplingParams& p = c.params;
    p.temperature = one_of({1e-4, 0.3, 1, 2, 1e6});
    if (below(3) == 0) p.top_k = below(vocab + 3);
    if (below(2) == 0) p.top_p = one_of({1e-9, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12});
    if (below(3) == 0) p.top_p_decay = one_of({0.5, 0.9});
    if (below(3) == 0) p.min_p = one_of({1e-6, 0.05, 0.4, 1});
    if (below(3) == 0) p.typical_p = one_of({1e-6, 0.2, 0.7, 0.95});
    if (below(3) == 0) p.no_repeat_ngram_size = 1 + below(3);
    for (int k = below(12); k > 0; --k) c.prompt.push_back(below(std::min<std::size_t>(vocab, 9)));
    for (int k = below(12); k > 0; --k) c.answer.push_back(below(std::min<std::size_t>(vocab, 9)));
    if (below(4) == 0) p.repetition_penalty = one_of({0.5, 1.3});
    if (below(4) == 0) p.frequency_penalty = one_of({-0.5, 0.25});
    const std::vector<double> wanted = reference_distribution(c);
    Drawer drawer(c);
    const auto seed = static_cast<std::uint64_t>(i);
    if (std::ranges::all_of(wanted, [](double w) { return w == 0; })) {
      EXPECT_THROW(drawer.draw(seed), Error);
      continue;
    }
    const auto drawn = static_cast<std::size_t>(drawer.draw(seed));
    double low = 0;
    for (std::size_t k = 0; k < drawn; ++k) low += wanted[k];
    const double u = uniform_at(seed, drawer.position());
    const bool inside = u >= low && u < low + wanted[drawn];
    // Where all weigh nearly the same, rounding decides about the token at the edge of a set.
    double least = 1, most = 0, kept = 0;
    for (const double w : wanted) {
      if (w == 0) continue;
      least = std::min(least, w);
      most = std::max(most, w);
      ++kept;
    }
    const double slack = 2e-5 + (most < 1.01 * least ? 1 / kept : 0);
    const bool near = u >= low - slack && u < low + wanted[drawn] + slack;
    close += near && !inside ? 1 : 0;
    EXPECT_TRUE(near) << "case " << i << ": drew " << drawn << " at " << u << ", its part is "
                      << low << " to " << low + wanted[drawn];
  }
  EXPECT_LT(close, kCases / 100);
}

// Any two of the parameters together, and all of them.
TEST(SamplerTest, PairsOfParametersDrawFromTheirDistribution) {
  const std::vector<void (*)(SamplingParams&)> parts = {
      [](SamplingParams& p) { p.temperature = 2.5; },
      [](SamplingParams& p) { p.top_k = 4; },
      [](SamplingParams& p) { p.top_p = 0.8; },
      [](SamplingParams& p) {
        p.top_p = std::min(p.top_p, 0.98);
        p.top_p_decay = 0.95;
        p.top_p_min = 0.5;
      },
      [](SamplingParams& p) { p.min_p = 0.15; },
      [](SamplingParams& p) { p.typical_p = 0.7; },
      [](SamplingParams& p) { p.repetition_penalty = 1.4; },
      [](SamplingParams& p) { p.presence_penalty = 0.8; },
      [](SamplingParams& p) { p.frequency_penalty = -0.6; },
      [](SamplingParams& p) { p.no_repeat_ngram_size = 2; },
      [](SamplingParams& p) { p.logit_bias = {{3, 3.0}, {1, -1.5}}; },
      [](SamplingParams& p) { p.bad_token_ids = {{2}, {3, 5}}; }};
  SamplingCase c{.logits = kLogits, .params = {}, .prompt = {1, 2, 4}, .answer = {5, 1, 5, 3}};
  for (std::size_t a = 0; a < parts.size(); ++a)
    for (std::size_t b = a + 1; b < parts.size(); ++b) {
      SCOPED_TRACE(fmt::format("{} and {}", a, b));
      c.params = {};
      parts[a](c.params);
      parts[b](c.params);
      expect_distribution(c);
    }
  c.params = {};
  for (const auto& part : parts) part(c.params);
  expect_distribution(c);
}

// One seed along a text, and the answers of one seed at one place, are as good as many seeds.
TEST(SamplerTest, PositionsAndAnswersOfOneSeedAreIndependent) {
  const SamplingParams p;
  const SamplingState state(p, {});
  const std::vector<double> single = reference_distribution({.logits = kLogits, .params = p});
  const std::size_t n = kLogits.size();
  Sampler sampler;
  constexpr std::uint64_t kDraws = 40000;
  for (const bool answers : {false, true}) {
    const auto draw = [&](std::uint64_t i) {
      const std::uint64_t seed = answers ? seed_of_answer(5, i) : 5;
      return static_cast<std::size_t>(
          sampler.draw(kLogits, p, {.state = state, .seed = seed, .position = answers ? 9 : i}));
    };
    std::vector<int> pairs(n * n);  // of one and the next
    std::size_t before = draw(0);
    for (std::uint64_t i = 1; i <= kDraws; ++i) {
      const std::size_t next = draw(i);
      ++pairs[before * n + next];
      before = next;
    }
    double chi2 = 0;
    int cells = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const double wanted = single[i / n] * single[i % n] * static_cast<double>(kDraws);
      if (wanted < 5) continue;
      chi2 += (pairs[i] - wanted) * (pairs[i] - wanted) / wanted;
      ++cells;
    }
    EXPECT_GT(cells, 20);
    EXPECT_LT(chi2, cells + 4.7 * std::sqrt(2.0 * cells) + 4) << (answers ? "answers" : "places");
  }
}

TEST(SamplerTest, LargeVocabulariesDrawFromTheirDistributionToo) {
  std::mt19937 random(3);
  std::normal_distribution<float> logit(0, 2);
  SamplingCase c{.logits = std::vector<float>(1500), .params = {}};
  for (float& x : c.logits) x = logit(random);
  for (const SamplingParams& p :
       {SamplingParams{}, SamplingParams{.top_k = 50}, SamplingParams{.top_k = 1000},
        SamplingParams{.top_p = 0.5}, SamplingParams{.top_p = 0.9}, SamplingParams{.min_p = 0.1},
        SamplingParams{.typical_p = 0.5}, SamplingParams{.top_p = 0.9, .typical_p = 0.5},
        SamplingParams{.temperature = 0.5, .min_p = 0.02, .repetition_penalty = 1.3},
        SamplingParams{.top_k = 100, .top_p = 0.7, .min_p = 0.2}}) {
    c.params = p;
    expect_distribution(c);
  }
}

// Temperature first, then min_p and top_p, and not the other way round: at a temperature of 5 the
// sets differ, and no draw is outside the right one.
TEST(SamplerTest, TheSetsOfMinPAndTopPFollowTheTemperature) {
  const std::vector<float> logits = {10, 8, 5, 0, -4, -12};
  const auto support = [&](const SamplingParams& p) {
    const SamplingCase c{.logits = logits, .params = p};
    Drawer drawer(c);
    std::set<std::int32_t> drawn;
    for (std::uint64_t seed = 0; seed < 500; ++seed) drawn.insert(drawer.draw(seed));
    return drawn;
  };
  using Ids = std::set<std::int32_t>;
  // exp((x - 10) / 5) >= 0.05 down to x = -4.97; before the temperature down to x = 7.01.
  EXPECT_EQ(support({.temperature = 5, .min_p = 0.05}), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(support({.temperature = 1, .min_p = 0.05}), (Ids{0, 1}));
  // Of 1, 0.67, 0.37, 0.14, 0.06, 0.01 the first three are 0.906; at 1 the first two 0.993.
  EXPECT_EQ(support({.temperature = 5, .top_p = 0.9}), (Ids{0, 1, 2}));
  EXPECT_EQ(support({.temperature = 1, .top_p = 0.9}), (Ids{0, 1}));
}

TEST(SamplerTest, GreedyTakesTheLowestIdAmongEquals) {
  const auto take = [](std::vector<float> logits, double temperature, std::uint64_t seed = 0) {
    return draw({.logits = std::move(logits), .params = {.temperature = temperature}}, seed);
  };
  EXPECT_EQ(take({1, 5, 5, 2}, 0), 1);
  std::vector<float> large(1000, 0.0f);
  large[700] = large[300] = 4.0f;
  EXPECT_EQ(take(large, 0), 300);
  for (const double t : {1e-10, 1e-40, 0.0, -0.0}) EXPECT_EQ(take(kLogits, t), 1);
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_EQ(take(kLogits, 1e-4, seed), 1);
}

TEST(SamplerTest, ExtremeParametersStayWithinTheLikeliest) {
  for (const SamplingParams& p :
       {SamplingParams{.temperature = 1e6, .top_p = 1e-4}, SamplingParams{.top_k = 1},
        SamplingParams{.top_k = 1000000000, .top_p = 1e-4}, SamplingParams{.min_p = 1},
        SamplingParams{.top_p = 1e-300}, SamplingParams{.temperature = 1e6, .min_p = 1}})
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      EXPECT_EQ(draw({.logits = kLogits, .params = p}, seed), 1);
  // Logits as far apart as floats go.
  const float far = std::numeric_limits<float>::max();
  for (const double t : {1e-5, 1.0, 1e6})
    EXPECT_EQ(draw({.logits = {-far, far, -far}, .params = {.temperature = t, .top_p = 0.5}}), 1);
}

TEST(SamplerTest, ADrawDependsOnSeedAndPositionOnly) {
  const SamplingParams p{.temperature = 1.5};
  Sampler one, other;
  const SamplingState state(p, {});
  std::set<std::int32_t> by_position;
  for (std::uint64_t position = 1; position < 60; ++position) {
    const DrawContext context{.state = state, .seed = 11, .position = position};
    const std::int32_t first = one.draw(kLogits, p, context);
    // Something else in between, and another sampler.
    one.draw(std::vector<float>(300, 1.0f), {.top_p = 0.9}, {.state = SamplingState({}, {})});
    EXPECT_EQ(first, one.draw(kLogits, p, context));
    EXPECT_EQ(first, other.draw(kLogits, p, context));
    by_position.insert(first);
  }
  EXPECT_GT(by_position.size(), 2u);
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (std::uint64_t answer = 0; answer < 20; ++answer)
      seeds.insert(seed_of_answer(seed, answer));
  EXPECT_EQ(seeds.size(), 400u);
  EXPECT_EQ(seed_of_answer(77, 0), 77u);
}

// Presence and frequency count the answer, repetition the prompt too, from the first token on.
TEST(SamplerTest, RepetitionCountsThePromptPresenceAndFrequencyDoNot) {
  const std::vector<float> logits = {2.0f, 1.9f, -1.0f};
  const std::vector<std::int32_t> prompt(20, 0);
  const auto changed = [&](SamplingParams p, const std::vector<std::int32_t>& answer) {
    Sampler sampler;
    std::vector<float> scores = logits;
    const SamplingState state =
        state_of({.logits = {}, .params = p, .prompt = prompt, .answer = answer});
    sampler.apply(scores, p, {.state = state});
    return scores;
  };
  EXPECT_EQ(changed({.presence_penalty = 2}, {}), logits);
  EXPECT_EQ(changed({.frequency_penalty = 2}, {}), logits);
  EXPECT_EQ(changed({.repetition_penalty = 1.3}, {}),
            (std::vector<float>{2.0f / 1.3f, 1.9f, -1.0f}));
  EXPECT_EQ(changed({.presence_penalty = 2}, {0}), (std::vector<float>{0.0f, 1.9f, -1.0f}));
  EXPECT_EQ(changed({.frequency_penalty = 0.5}, {0, 0}), (std::vector<float>{1.0f, 1.9f, -1.0f}));
  EXPECT_EQ(changed({.repetition_penalty = 1.3}, {2}),
            (std::vector<float>{2.0f / 1.3f, 1.9f, -1.3f}));
}

TEST(SamplerTest, NothingIsAllocatedForWhatWasReserved) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer's build does not count";
  std::mt19937 random(9);
  std::normal_distribution<float> logit(0, 2);
  std::vector<float> logits(4000);
  for (float& x : logits) x = logit(random);
  const SamplingParams all{.temperature = 2,
                           .top_p = 0.95,
                           .top_p_decay = 0.999,
                           .min_p = 1e-4,
                           .typical_p = 0.9,
                           .repetition_penalty = 1.2,
                           .frequency_penalty = 0.1,
                           .no_repeat_ngram_size = 2,
                           .logit_bias = {{3, 2.0}},
                           .bad_token_ids = {{3, 4}, {5}}};
  SamplingParams by_count = all;
  by_count.top_k = 40;
  const std::vector<std::int32_t> prompt = {1, 2, 3, 1};
  const std::vector<std::uint32_t> mask(125, 0x7fffffff);
  Sampler sampler;
  sampler.reserve(logits.size());
  const auto draw_all = [&](std::uint64_t seed, float scale) {
    std::ranges::transform(logits, logits.begin(), [&](float x) { return x * scale; });
    for (const SamplingParams& p : {all, by_count, SamplingParams{}}) {
      const SamplingState state(p, prompt);
      const DrawContext context{.state = state, .seed = seed, .token_mask = mask};
      const std::uint64_t before = test::allocations();
      sampler.draw(logits, p, context);
      EXPECT_EQ(test::allocations(), before) << "draw " << seed;
    }
  };
  ASSERT_GT(test::allocations(), 0u);
  draw_all(0, 1);
  for (std::uint64_t seed = 1; seed < 20; ++seed) draw_all(seed, seed < 10 ? 0.7f : 1.9f);
}

TEST(SamplerTest, NotANumberEndsTheRequest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const auto fails = [](const SamplingCase& c) {
    try {
      draw(c);
      return false;
    } catch (const Error& e) {
      return e.code() == ErrorCode::kRequest;
    }
  };
  for (const double temperature : {0.0, 1.0}) {
    const SamplingParams p{.temperature = temperature};
    EXPECT_TRUE(fails({.logits = {1, nan, 2}, .params = p}));
    EXPECT_TRUE(fails({.logits = {1, inf, 2}, .params = p}));
    std::vector<float> long_row(100, 1.0f);
    long_row[50] = nan;
    EXPECT_TRUE(fails({.logits = long_row, .params = p}));
    EXPECT_TRUE(fails({.logits = long_row, .params = p, .forbidden = {50}}));
    EXPECT_EQ(draw({.logits = {1, -inf, -inf}, .params = p}), 0);
    // Nothing is left.
    EXPECT_TRUE(fails({.logits = {-inf, -inf}, .params = p}));
    EXPECT_TRUE(fails({.logits = {1, 2}, .params = p, .forbidden = {1, 0}}));
    EXPECT_TRUE(fails({.logits = {1, 2}, .params = p, .allowed = {false, false}}));
  }
}

TEST(SamplerTest, ACallbackActsFirstAndItsFaultsAreItsRequestsOwn) {
  Sampler sampler;
  const SamplingParams p{.temperature = 0, .logit_bias = {{3, 1.0}}};
  const SamplingState state(p, {});
  const std::vector<std::int32_t> tokens = {4, 2};
  const auto take = [&](const LogitsCallback& callback, std::vector<std::int32_t> forbidden = {}) {
    return sampler.draw(kLogits, p,
                        {.state = state,
                         .position = 2,
                         .forbidden = forbidden,
                         .callback = &callback,
                         .tokens = tokens,
                         .prompt_tokens = 1});
  };
  EXPECT_EQ(take({}), 1);
  EXPECT_EQ(take([&](const LogitsView& view) {
              EXPECT_TRUE(std::ranges::equal(view.tokens, tokens));
              EXPECT_EQ(view.prompt_tokens, 1u);
              EXPECT_TRUE(std::ranges::equal(view.logits, kLogits));  // no bias yet
              view.logits[3] = 2.5f;
            }),
            3);
  const LogitsCallback wants_3 = [](const LogitsView& view) { view.logits[3] = 100; };
  EXPECT_EQ(take(wants_3), 3);
  EXPECT_EQ(take(wants_3, {3}), 1) << "a ban stands above a callback";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const LogitsCallback& bad :
       {LogitsCallback([](const LogitsView&) { throw std::runtime_error("mine"); }),
        LogitsCallback([&](const LogitsView& view) { view.logits[0] = nan; })}) {
    try {
      take(bad);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kRequest);
      EXPECT_NE(e.message().find("[sampler.callback]"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ingot
