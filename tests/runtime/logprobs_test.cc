#include "runtime/logprobs.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace ingot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogprobsTest, AreOfTheRawSoftmax) {
  std::mt19937 random(5);
  std::normal_distribution<float> logit(0, 6);
  Logprobs logprobs;
  for (const std::size_t vocab : {1u, 5u, 257u, 3000u}) {
    std::vector<float> logits(vocab);
    for (float& x : logits) x = logit(random);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    const TokenLogprob all = logprobs.of(logits, 0, static_cast<std::int32_t>(vocab));
    ASSERT_EQ(all.top.size(), vocab);
    double mass = 0;
    for (const auto& [id, logprob] : all.top) {
      const double wanted = logits[static_cast<std::size_t>(id)] - std::log(sum);
      EXPECT_NEAR(logprob, wanted, 1e-6 * (1 + std::abs(wanted)));
      EXPECT_EQ(logprob, logprobs.of(logits, id, 0).logprob);
      mass += std::exp(static_cast<double>(logprob));
    }
    EXPECT_NEAR(mass, 1.0, 1e-6);
    EXPECT_TRUE(
        std::ranges::is_sorted(all.top, std::greater<>(), [](auto& x) { return x.second; }));
  }
}

TEST(LogprobsTest, TheTopIsWhatASortGivesTheLowestIdOfEquals) {
  std::mt19937 random(6);
  Logprobs logprobs;
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits(1 + random() % 2000);
    for (float& x : logits) x = static_cast<float>(random() % 500);
    std::vector<std::int32_t> order(logits.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int32_t>(k);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; });
    const std::size_t top = random() % (logits.size() + 5);
    const TokenLogprob result = logprobs.of(logits, 0, static_cast<std::int32_t>(top));
    ASSERT_EQ(result.top.size(), std::min(top, logits.size()));
    for (std::size_t k = 0; k < result.top.size(); ++k) EXPECT_EQ(result.top[k].first, order[k]);
  }
}

TEST(LogprobsTest, AreFiniteWhateverTheLogits) {
  Logprobs logprobs;
  const std::vector<float> masked = {0.0f, -kInfinity, 0.0f, -3e38f};
  EXPECT_EQ(logprobs.of(masked, 1, 0).logprob, kLeastLogprob);
  EXPECT_EQ(logprobs.of(masked, 3, 0).logprob, kLeastLogprob);
  const TokenLogprob result = logprobs.of(masked, 0, 4);
  EXPECT_NEAR(result.logprob, std::log(0.5), 1e-6);
  for (const auto& [id, logprob] : result.top) EXPECT_TRUE(std::isfinite(logprob)) << id;
  for (const std::vector<float>& bad :
       {std::vector<float>{0, std::nanf("")}, {0, kInfinity}, {-kInfinity, -kInfinity}}) {
    EXPECT_THROW(logprobs.of(bad, 0, 1), Error);
  }
}

}  // namespace
}  // namespace ingot
