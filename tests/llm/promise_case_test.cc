// What the promise's test relies on when it fails: small cases, written so that they can be kept.
#include "tests/llm/promise_case.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ingot {
namespace {

using test::CaseLimits;
using test::Guesser;
using test::PromiseCase;
using test::PromisedRequest;

constexpr CaseLimits kLimits = {.vocab = 100, .guided = 6, .has_tokenizer = true};

TEST(PromiseCases, AreTheSameForASeedAndDifferOtherwise) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(to_string(random_case(seed, kLimits)), to_string(random_case(seed, kLimits)));
    EXPECT_NE(to_string(random_case(seed, kLimits)), to_string(random_case(seed + 1, kLimits)));
  }
}

TEST(PromiseCases, AreWrittenAsTheyAreMade) {
  const PromiseCase c{.conditions = {.step_tokens = 9,
                                     .policy = SchedulerPolicy::kExpectedLength,
                                     .guesser = Guesser::kModel},
                      .requests = {{},
                                   {.own = 3,
                                    .salt = "other",
                                    .guided = GuidedKind::kRegex,
                                    .description = "[a\"b]+",
                                    .sampling = {.temperature = 0.7,
                                                 .logit_bias = {{7, 1.5}},
                                                 .bad_token_ids = {{1}, {2, 3}},
                                                 .seed = 5,
                                                 .ignore_eos = true}}}};
  EXPECT_EQ(to_string(c),
            R"~(PromiseCase{.conditions = {.step_tokens = 9, .policy = SchedulerPolicy{2}, )~"
            R"~(.guesser = Guesser{2}},
  .requests = {
    {},
    {.own = 3, .salt = R"(other)", .guided = GuidedKind{3}, .description = R"([a"b]+)", )~"
            R"~(.sampling = {.temperature = 0.7, .logit_bias = {{7, 1.5}}, )~"
            R"~(.bad_token_ids = {{1}, {2, 3}}, .seed = 5, .ignore_eos = true}},
  }})~");
}

TEST(PromiseCases, AreShrunkToWhatFails) {
  int failed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto fails = [](const PromiseCase& c) {
      return c.conditions.pages < 7 && std::ranges::any_of(
                                           c.requests,
                                           [](const PromisedRequest& r) {
                                             return r.sampling.max_tokens > 6 && r.common > 20;
                                           });
    };
    const PromiseCase c = random_case(seed, kLimits);
    if (!fails(c)) continue;
    ++failed;
    EXPECT_EQ(to_string(shrunk(c, fails, 2000)),
              "PromiseCase{.conditions = {.pages = 6},\n  .requests = {\n"
              "    {.common = 21, .sampling = {.seed = 0, .max_tokens = 7}},\n  }}");
  }
  EXPECT_GT(failed, 50);
}

TEST(PromiseCases, AreNotAskedAboutForEver) {
  int asked = 0;
  const auto fails = [&](const PromiseCase&) {
    ++asked;
    return true;
  };
  shrunk(random_case(1, kLimits), fails, 10);
  EXPECT_EQ(asked, 10);
}

}  // namespace
}  // namespace ingot
