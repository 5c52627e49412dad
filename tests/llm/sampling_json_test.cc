#include "llm/sampling_json.h"

#include "base/error.h"
#include "runtime/check_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ingot {
namespace {

using testing::HasSubstr;

SamplingParams read(const std::string& body, const SamplingParams& defaults = {}) {
  return sampling_from_json(parse_ordered_json(body, "a body"), defaults);
}

// What refuses the body: reading it, or the check of its values against a vocabulary of 100.
std::string refusal(const std::string& body) {
  try {
    return check_sampling(read(body), 100);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kRequest);
    return e.message();
  }
}

TEST(SamplingJsonTest, EveryFieldReachesItsParameter) {
  const SamplingParams p = read(R"({
    "temperature": 0.5, "top_k": 7, "top_p": 0.9, "top_p_decay": 0.8, "top_p_min": 0.3,
    "top_p_reset_id": 4, "min_p": 0.1, "typical_p": 0.6, "repetition_penalty": 1.2,
    "presence_penalty": -0.5, "frequency_penalty": 0.25, "no_repeat_ngram_size": 3,
    "logit_bias": {"5": 1.5, "17": -100}, "bad_words": ["x", "y z"], "bad_token_ids": [[1], [2, 3]],
    "seed": 18446744073709551615, "max_tokens": 9, "min_tokens": 2, "ignore_eos": true,
    "stop": ["a", "b"], "stop_token_ids": [8], "include_stop_str_in_output": true,
    "n": 2, "best_of": 4, "logprobs": 3, "prompt_logprobs": 0})");
  EXPECT_EQ(p.temperature, 0.5);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.top_p, 0.9);
  EXPECT_EQ(p.top_p_decay, 0.8);
  EXPECT_EQ(p.top_p_min, 0.3);
  EXPECT_EQ(p.top_p_reset_id, 4);
  EXPECT_EQ(p.min_p, 0.1);
  EXPECT_EQ(p.typical_p, 0.6);
  EXPECT_EQ(p.repetition_penalty, 1.2);
  EXPECT_EQ(p.presence_penalty, -0.5);
  EXPECT_EQ(p.frequency_penalty, 0.25);
  EXPECT_EQ(p.no_repeat_ngram_size, 3);
  EXPECT_EQ(p.logit_bias, (std::map<std::int32_t, double>{{5, 1.5}, {17, -100}}));
  EXPECT_EQ(p.bad_words, (std::vector<std::string>{"x", "y z"}));
  EXPECT_EQ(p.bad_token_ids, (std::vector<std::vector<std::int32_t>>{{1}, {2, 3}}));
  EXPECT_EQ(p.seed, 18446744073709551615ull);
  EXPECT_EQ(p.max_tokens, 9);
  EXPECT_EQ(p.min_tokens, 2);
  EXPECT_TRUE(p.ignore_eos);
  EXPECT_EQ(p.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.stop_token_ids, (std::vector<std::int32_t>{8}));
  EXPECT_TRUE(p.include_stop_str);
  EXPECT_EQ(p.n, 2);
  EXPECT_EQ(p.best_of, 4);
  EXPECT_EQ(p.logprobs, 3);
  EXPECT_EQ(p.prompt_logprobs, 0);
  EXPECT_EQ(check_sampling(p, 100), "");
  EXPECT_EQ(read(R"({"max_completion_tokens": 5, "top_p_reset_ids": 6})").max_tokens, 5);
  EXPECT_EQ(read(R"({"top_p_reset_ids": 6})").top_p_reset_id, 6);
  EXPECT_EQ(read(R"({"stop": "one", "bad_words": "two"})").stop, (std::vector<std::string>{"one"}));
}

TEST(SamplingJsonTest, WhatIsAbsentOrNullComesFromTheDefaults) {
  const SamplingParams defaults{.temperature = 0.6, .top_k = 20, .repetition_penalty = 1.1};
  const SamplingParams p =
      read(R"({"temperature": null, "logit_bias": null, "n": null})", defaults);
  EXPECT_EQ(p.temperature, 0.6);
  EXPECT_EQ(p.top_k, 20);
  EXPECT_EQ(p.repetition_penalty, 1.1);
  EXPECT_EQ(p.n, 1);
  EXPECT_FALSE(p.seed);
}

TEST(SamplingJsonTest, LogprobsOfCompletionsAndOfChats) {
  EXPECT_EQ(read("{}").logprobs, -1);
  EXPECT_EQ(read(R"({"logprobs": 5})").logprobs, 5);
  EXPECT_EQ(read(R"({"logprobs": false})").logprobs, -1);
  EXPECT_EQ(read(R"({"logprobs": true})").logprobs, 0);
  EXPECT_EQ(read(R"({"logprobs": true, "top_logprobs": 0})").logprobs, 0);
  EXPECT_EQ(read(R"({"logprobs": true, "top_logprobs": 20})").logprobs, 20);
  EXPECT_THAT(refusal(R"({"top_logprobs": 3})"), HasSubstr("top_logprobs"));
  EXPECT_THAT(refusal(R"({"logprobs": true, "top_logprobs": 101})"), HasSubstr("logprobs 101"));
}

TEST(SamplingJsonTest, BeamsTakeTheirWidthAndLeaveTheDefaultsOfDraws) {
  const SamplingParams defaults{.temperature = 0.6, .top_k = 20, .top_p = 0.9, .min_p = 0.05};
  for (const char* body :
       {R"({"beam_width": 4, "n": 2})", R"({"beam_width": 4, "n": 2, "use_beam_search": true})",
        R"({"use_beam_search": true, "best_of": 4, "n": 2})"}) {
    const SamplingParams p = read(body, defaults);
    EXPECT_EQ(p.beam_width, 4) << body;
    EXPECT_EQ(p.n, 2) << body;
    EXPECT_EQ(check_sampling(p, 100), "") << body;
  }
  EXPECT_EQ(read(R"({"use_beam_search": true, "n": 3})").beam_width, 3);
  EXPECT_EQ(read(R"({"use_beam_search": false, "n": 3})").beam_width, 1);
  const SamplingParams p =
      read(R"({"beam_width": 2, "length_penalty": -1, "early_stopping": "never",
                                    "beam_search_diversity_rate": 0.5})");
  EXPECT_EQ(p.length_penalty, -1);
  EXPECT_EQ(p.early_stopping, EarlyStopping::kNever);
  EXPECT_EQ(p.beam_search_diversity_rate, 0.5);
  EXPECT_EQ(read(R"({"early_stopping": true})").early_stopping, EarlyStopping::kTrue);
  EXPECT_EQ(read(R"({"early_stopping": false})").early_stopping, EarlyStopping::kHeuristic);
}

TEST(SamplingJsonTest, WhatIsWrongIsToldByItsField) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({"temperature": "hot"})", "temperature"},
      {R"({"top_k": 1.5})", "top_k"},
      {R"({"top_k": -1})", "top_k"},
      {R"({"top_p": 0})", "top_p"},
      {R"({"top_p_decay": 2})", "top_p_decay"},
      {R"({"top_p_min": "a"})", "top_p_min"},
      {R"({"top_p_reset_ids": [3]})", "top_p_reset_ids"},
      {R"({"top_p_reset_id": 100})", "top_p_reset_id"},
      {R"({"typical_p": 0})", "typical_p"},
      {R"({"no_repeat_ngram_size": 1073741824})", "no_repeat_ngram_size"},
      {R"({"logit_bias": [1, 2]})", "logit_bias"},
      {R"({"logit_bias": {"abc": 1}})", "`abc`: wanted a token id"},
      {R"({"logit_bias": {"-1": 1}})", "`-1`: wanted a token id"},
      {R"({"logit_bias": {"2147483648": 1}})", "`2147483648`: wanted a token id"},
      {R"({"logit_bias": {"": 1}})", "``: wanted a token id"},
      {R"({"logit_bias": {"5": 1, "05": 2}})", "token 5 comes twice"},
      {R"({"logit_bias": {"999999": 1}})", "999999 is outside the vocabulary"},
      {R"({"logit_bias": {"5": 101}})", "101"},
      {R"({"logit_bias": {"5": -1e9}})", "-1000000000"},
      {R"({"logit_bias": {"5": "NaN"}})", "logit_bias"},
      {R"({"bad_words": [7]})", "bad_words"},
      {R"({"bad_words": [""]})", "bad_words"},
      {R"({"bad_token_ids": [1, 2]})", "bad_token_ids"},
      {R"({"bad_token_ids": [[-1]]})", "bad_token_ids"},
      {R"({"bad_token_ids": [[100]]})", "bad_token_ids"},
      {R"({"stop_token_ids": [999999]})", "stop_token_ids"},
      {R"({"stop_token_ids": [-1]})", "stop_token_ids"},
      {R"({"stop": [7]})", "stop"},
      {R"({"include_stop_str_in_output": 1})", "include_stop_str_in_output"},
      {R"({"n": 3, "best_of": 2})", "best_of 2"},
      {R"({"max_tokens": 5, "max_completion_tokens": 6})",
       "max_completion_tokens] 6: max_tokens says 5"},
      {R"({"top_p_reset_id": 5, "top_p_reset_ids": 6})", "top_p_reset_ids] 6"},
      {R"({"logprobs": 5, "top_logprobs": 6})", "top_logprobs] 6: logprobs says 5"},
      {R"({"seed": -1})", "seed"},
      {R"({"early_stopping": "sometimes"})", "early_stopping"},
      {R"({"early_stopping": true})", "early_stopping"},  // without beams
      {R"({"length_penalty": 2})", "length_penalty"},
      {R"({"use_beam_search": true})", "use_beam_search"},
      {R"({"use_beam_search": false, "beam_width": 2})", "use_beam_search"},
      {R"({"beam_width": 2, "temperature": 0.7})", "temperature"},
      {R"({"beam_width": 2, "top_k": 5})", "top_k"}};
  for (const auto& [body, message] : wrong) EXPECT_THAT(refusal(body), HasSubstr(message)) << body;
}

// Whoever finds a value out of bounds, the reader or the check, names the same ones.
TEST(SamplingJsonTest, BoundsAreTheSameWhereverTheyAreTold) {
  const std::vector<std::tuple<std::string, std::string, std::string>> wrong = {
      {"n", "0", "1 to 128"},
      {"n", "129", "1 to 128"},
      {"n", "3000000000", "1 to 128"},
      {"best_of", "129", "1 to 128"},
      {"beam_width", "0", "1 to 128"},
      {"beam_width", "129", "1 to 128"},
      {"no_repeat_ngram_size", "-1", "0 (off) to 256"},
      {"no_repeat_ngram_size", "18446744073709551615", "0 (off) to 256"},
      {"logprobs", "-1", "0 to the size of the vocabulary"},
      {"logprobs", "101", "0 to 100"},
      {"prompt_logprobs", "3000000000", "0 to the size of the vocabulary"},
      {"max_tokens", "0", "1 to 2147483647"}};
  for (const auto& [field, value, bounds] : wrong) {
    const std::string told = refusal("{\"" + field + "\": " + value + "}");
    EXPECT_THAT(told, HasSubstr(field)) << told;
    EXPECT_THAT(told, HasSubstr(value + ": wanted " + bounds)) << told;
  }
  const auto check = [](const SamplingParams& p) { return check_sampling(p, 100); };
  EXPECT_THAT(check({.n = 129}), HasSubstr("1 to 128"));
  EXPECT_THAT(check({.beam_width = 0}), HasSubstr("1 to 128"));
  EXPECT_THAT(check({.no_repeat_ngram_size = -1}), HasSubstr("0 (off) to 256"));
  EXPECT_EQ(read(R"({"max_tokens": 5, "max_completion_tokens": 5})").max_tokens, 5);
}

}  // namespace
}  // namespace ingot
