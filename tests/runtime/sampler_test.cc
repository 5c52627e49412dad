#include "runtime/sampler.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace ingot {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, -1.0f, 0.5f, 2.9f};

std::int32_t draw(const std::vector<float>& logits, const SamplingParams& p, std::uint64_t seed = 0,
                  std::vector<std::int32_t> tokens = {0}, std::size_t prompt = 1) {
  Sampler sampler;
  return sampler.draw(logits, p,
                      {.tokens = tokens, .prompt_tokens = prompt, .seed = seed, .forbidden = {}});
}

// Probabilities by the documented order, in double, with plain loops.
std::vector<double> reference(const std::vector<float>& logits, const SamplingParams& p) {
  const std::size_t n = logits.size();
  std::vector<double> weight(n);
  std::vector<std::size_t> order(n);
  double largest = -1e300;
  for (const float x : logits) largest = std::max(largest, static_cast<double>(x));
  for (std::size_t i = 0; i < n; ++i) {
    weight[i] = std::exp((logits[i] - largest) / p.temperature);
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return logits[a] > logits[b]; });
  if (p.top_k > 0)
    for (std::size_t r = static_cast<std::size_t>(p.top_k); r < n; ++r) weight[order[r]] = 0;
  double total = 0;
  for (const double w : weight) total += w;
  double sum = 0;
  for (const std::size_t i : order) {
    if (sum >= p.top_p * total && sum > 0) weight[i] = 0;
    sum += weight[i];
  }
  for (double& w : weight)
    if (w < p.min_p) w = 0;  // the likeliest weighs 1
  total = 0;
  for (const double w : weight) total += w;
  for (double& w : weight) w /= total;
  return weight;
}

// Pearson's statistic of 20,000 draws against the reference; 99.9 % of right samplers stay below
// the bound.
void expect_distribution(const SamplingParams& p) {
  const std::vector<double> wanted = reference(kLogits, p);
  std::vector<int> seen(kLogits.size());
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i)
    ++seen[static_cast<std::size_t>(draw(kLogits, p, static_cast<std::uint64_t>(i)))];
  double chi2 = 0;
  int free_cells = -1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0) {
      EXPECT_EQ(seen[i], 0) << "token " << i << " is outside the set";
      continue;
    }
    const double expected = wanted[i] * kDraws;
    chi2 += (seen[i] - expected) * (seen[i] - expected) / expected;
    ++free_cells;
  }
  EXPECT_LT(chi2, free_cells + 4.7 * std::sqrt(2.0 * std::max(1, free_cells)) + 4);
}

TEST(SamplerTest, DistributionsMatchThePlainReference) {
  expect_distribution({.temperature = 1.0});
  expect_distribution({.temperature = 0.5});
  expect_distribution({.temperature = 5.0});
  expect_distribution({.temperature = 1.0, .top_k = 3});
  expect_distribution({.temperature = 1.0, .top_p = 0.7});
  expect_distribution({.temperature = 5.0, .min_p = 0.5});
  expect_distribution({.temperature = 2.0, .top_k = 5, .top_p = 0.9, .min_p = 0.3});
}

TEST(SamplerTest, GreedyTakesTheLowestIdAmongEquals) {
  EXPECT_EQ(draw({1, 5, 5, 2}, {.temperature = 0}), 1);
  std::vector<float> large(1000, 0.0f);
  large[700] = large[300] = 4.0f;
  EXPECT_EQ(draw(large, {.temperature = 0}), 300);
  for (const double t : {1e-10, 1e-40, 0.0}) EXPECT_EQ(draw(kLogits, {.temperature = t}), 1);
  for (int seed = 0; seed < 50; ++seed)
    EXPECT_EQ(draw(kLogits, {.temperature = 1e-4}, static_cast<std::uint64_t>(seed)), 1);
}

TEST(SamplerTest, ADrawDependsOnSeedAndPositionOnly) {
  const SamplingParams p{.temperature = 1.5};
  std::set<std::int32_t> by_position;
  for (int length = 1; length < 60; ++length) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(length), 0);
    const std::int32_t first = draw(kLogits, p, 11, tokens);
    EXPECT_EQ(first, draw(kLogits, p, 11, tokens));
    by_position.insert(first);
  }
  EXPECT_GT(by_position.size(), 2u);
}

TEST(SamplerTest, RepetitionCountsThePromptPresenceAndFrequencyDoNot) {
  const std::vector<float> logits = {2.0f, 1.9f, -1.0f};
  const auto best = [&](SamplingParams p, std::vector<std::int32_t> tokens, std::size_t prompt) {
    p.temperature = 0;
    return draw(logits, p, 0, std::move(tokens), prompt);
  };
  EXPECT_EQ(best({.repetition_penalty = 1.3}, {0}, 1), 1);  // in the prompt
  EXPECT_EQ(best({.presence_penalty = 1.0}, {0}, 1), 0);
  EXPECT_EQ(best({.frequency_penalty = 1.0}, {0}, 1), 0);
  EXPECT_EQ(best({.presence_penalty = 1.0}, {2, 0}, 1), 1);  // in the answer
  EXPECT_EQ(best({.frequency_penalty = 0.06}, {2, 0}, 1), 0);
  EXPECT_EQ(best({.frequency_penalty = 0.06}, {2, 0, 0}, 1), 1);  // twice
}

// What one draw counted is not there in the next.
TEST(SamplerTest, PenaltiesOfOneRequestDoNotReachAnother) {
  const std::vector<float> logits = {2.0f, 1.9f, -1.0f};
  Sampler sampler;
  const SamplingParams p{.temperature = 0, .presence_penalty = 1.0, .frequency_penalty = 1.0};
  const std::vector<std::int32_t> own = {2, 0, 0}, other = {2, 1}, odd = {-1, 3, 2};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sampler.draw(logits, p, {.tokens = own, .prompt_tokens = 1}), 1);
    EXPECT_EQ(sampler.draw(logits, p, {.tokens = other, .prompt_tokens = 1}), 0);
    EXPECT_EQ(sampler.draw(logits, p, {.tokens = odd, .prompt_tokens = 1}), 0);
  }
}

TEST(SamplerTest, NotANumberEndsTheRequest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  try {
    draw({1, nan, 2}, {.temperature = 0});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kRequest);
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(draw({1, -inf, 2}, {.temperature = 0}), 2);
}

TEST(SamplerTest, LogprobsAreOfTheRawSoftmax) {
  double sum = 0;
  for (std::size_t i = 0; i < kLogits.size(); ++i)
    sum += std::exp(Sampler::logprob(kLogits, static_cast<std::int32_t>(i), 0).logprob);
  EXPECT_NEAR(sum, 1.0, 1e-6);
  const TokenLogprob top = Sampler::logprob(kLogits, 3, 2);
  ASSERT_EQ(top.top.size(), 2u);
  EXPECT_EQ(top.top[0].first, 1);
  EXPECT_EQ(top.top[1].first, 5);
}

TEST(SamplerTest, ParametersOutOfRangeAreNamed) {
  const auto wrong = [](SamplingParams p) { return check_sampling(p, 10); };
  EXPECT_EQ(wrong({}), "");
  EXPECT_NE(wrong({.temperature = std::nan("")}), "");
  EXPECT_NE(wrong({.temperature = -0.1}), "");
  EXPECT_EQ(wrong({.temperature = -0.0}), "");
  EXPECT_NE(wrong({.top_k = -1}), "");
  EXPECT_NE(wrong({.top_p = 0}), "");
  EXPECT_NE(wrong({.top_p = 1.0001}), "");
  EXPECT_NE(wrong({.min_p = 1.5}), "");
  EXPECT_NE(wrong({.repetition_penalty = 0}), "");
  EXPECT_NE(wrong({.repetition_penalty = 1e-300}), "");
  EXPECT_EQ(wrong({.repetition_penalty = 1e-6}), "");
  EXPECT_NE(wrong({.max_tokens = -1}), "");
  EXPECT_NE(wrong({.stop = {""}}), "");
  EXPECT_NE(wrong({.stop_token_ids = {10}}), "");
  EXPECT_NE(wrong({.stop_token_ids = {-1}}), "");
}

}  // namespace
}  // namespace ingot
