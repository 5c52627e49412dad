#include "runtime/check_sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ingot {
namespace {

constexpr std::int32_t kVocab = 100;
const double kNan = std::nan("");
const double kInfinity = std::numeric_limits<double>::infinity();

TEST(CheckSamplingTest, WhatIsOutOfRangeIsNamed) {
  const std::vector<std::pair<std::string, SamplingParams>> wrong = {
      {"temperature", {.temperature = -0.1}},
      {"temperature", {.temperature = 1e10}},
      {"temperature", {.temperature = kNan}},
      {"temperature", {.temperature = kInfinity}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = 0}},
      {"top_p", {.top_p = 1.0001}},
      {"top_p", {.top_p = kNan}},
      {"top_p_decay", {.top_p_decay = 0}},
      {"top_p_decay", {.top_p_decay = 1.1}},
      {"top_p_decay", {.top_p_decay = kNan}},
      {"top_p_min", {.top_p_min = 0}},
      {"top_p_min", {.top_p_min = 1.5}},
      {"top_p_min", {.top_p_min = kNan}},
      {"top_p_min", {.top_p = 0.5, .top_p_decay = 0.9, .top_p_min = 0.6}},
      {"top_p_reset_id", {.top_p_reset_id = -2}},
      {"top_p_reset_id", {.top_p_reset_id = kVocab}},
      {"min_p", {.min_p = -0.1}},
      {"min_p", {.min_p = 1.5}},
      {"min_p", {.min_p = kNan}},
      {"typical_p", {.typical_p = 0}},
      {"typical_p", {.typical_p = 2}},
      {"typical_p", {.typical_p = kNan}},
      {"repetition_penalty", {.repetition_penalty = 0}},
      {"repetition_penalty", {.repetition_penalty = 1e-300}},
      {"repetition_penalty", {.repetition_penalty = kNan}},
      {"presence_penalty", {.presence_penalty = kNan}},
      {"presence_penalty", {.presence_penalty = -101}},
      {"frequency_penalty", {.frequency_penalty = 1e9}},
      {"frequency_penalty", {.frequency_penalty = kNan}},
      {"no_repeat_ngram_size", {.no_repeat_ngram_size = -1}},
      {"no_repeat_ngram_size", {.no_repeat_ngram_size = 257}},
      {"logit_bias", {.logit_bias = {{999999, 1}}}},
      {"logit_bias", {.logit_bias = {{5, 1}, {kVocab, 1}}}},
      {"logit_bias", {.logit_bias = {{-1, 1}}}},
      {"logit_bias", {.logit_bias = {{1, 101}}}},
      {"logit_bias", {.logit_bias = {{1, -1e9}}}},
      {"logit_bias", {.logit_bias = {{1, kNan}}}},
      {"bad_words", {.bad_words = {"a", ""}}},
      {"bad_words", {.bad_words = {std::string(257, 'a')}}},
      {"bad_words", {.bad_words = std::vector<std::string>(1025, "a")}},
      {"bad_token_ids", {.bad_token_ids = {{1}, {}}}},
      {"bad_token_ids", {.bad_token_ids = {{1, -1}}}},
      {"bad_token_ids", {.bad_token_ids = {{1, kVocab}}}},
      {"bad_token_ids", {.bad_token_ids = {std::vector<std::int32_t>(257, 1)}}},
      {"max_tokens", {.max_tokens = -1}},
      {"min_tokens", {.min_tokens = -1}},
      {"min_tokens", {.max_tokens = 2, .min_tokens = 3}},
      {"stop", {.stop = {"a", ""}}},
      {"stop", {.stop = std::vector<std::string>(1025, "a")}},
      {"stop", {.stop = {std::string(65537, 'a')}}},
      {"stop_token_ids", {.stop_token_ids = {-1}}},
      {"stop_token_ids", {.stop_token_ids = {999999}}},
      {"n", {.n = 0}},
      {"n", {.n = 129}},
      {"best_of", {.n = 3, .best_of = 2}},
      {"best_of", {.best_of = -1}},
      {"best_of", {.best_of = 129}},
      {"logprobs", {.logprobs = -2}},
      {"logprobs", {.logprobs = kVocab + 1}},
      {"prompt_logprobs", {.prompt_logprobs = -2}},
      {"prompt_logprobs", {.prompt_logprobs = kVocab + 1}},
      {"beam_width", {.beam_width = 0}},
      {"beam_width", {.beam_width = 129}},
      {"length_penalty", {.beam_width = 2, .length_penalty = kNan}},
      {"length_penalty", {.beam_width = 2, .length_penalty = 11}},
      {"beam_search_diversity_rate", {.beam_width = 2, .beam_search_diversity_rate = -1}},
      {"beam_search_diversity_rate", {.beam_width = 2, .beam_search_diversity_rate = kNan}}};
  for (const auto& [field, params] : wrong) {
    const std::string message = check_sampling(params, kVocab);
    EXPECT_EQ(message.substr(0, message.find_first_of(" :")), field) << message;
  }
}

// Fields that would be ignored silently are refused: beams draw nothing, draws have no beams.
TEST(CheckSamplingTest, BeamsAndDrawsDoNotMix) {
  const std::vector<std::pair<std::string, SamplingParams>> wrong = {
      {"length_penalty", {.length_penalty = 2}},
      {"early_stopping", {.early_stopping = EarlyStopping::kTrue}},
      {"early_stopping", {.early_stopping = EarlyStopping::kNever}},
      {"beam_search_diversity_rate", {.beam_search_diversity_rate = 0.5}},
      {"n", {.n = 3, .beam_width = 2}},
      {"best_of", {.best_of = 3, .beam_width = 2}},
      {"temperature", {.temperature = 0.7, .beam_width = 2}},
      {"top_k", {.top_k = 5, .beam_width = 2}},
      {"top_p", {.top_p = 0.9, .beam_width = 2}},
      {"top_p_decay", {.top_p_decay = 0.9, .beam_width = 2}},
      {"min_p", {.min_p = 0.1, .beam_width = 2}},
      {"typical_p", {.typical_p = 0.5, .beam_width = 2}}};
  for (const auto& [field, params] : wrong) {
    const std::string message = check_sampling(params, kVocab);
    EXPECT_EQ(message.substr(0, message.find_first_of(" :")), field) << message;
  }
}

TEST(CheckSamplingTest, TheEndsOfEveryRangeAreTaken) {
  for (const SamplingParams& params : std::vector<SamplingParams>{
           {},
           {.temperature = 0},
           {.temperature = -0.0},
           {.temperature = 1e-40},
           {.temperature = 1e6},
           {.top_k = 1000000000},
           {.top_p = 1e-300},
           {.top_p = 1e-9},  // below top_p_min, which no decay calls for
           {.top_p_decay = 0.5, .top_p_min = 1, .top_p_reset_id = kVocab - 1},
           {.min_p = 1},
           {.typical_p = 1e-9},
           {.repetition_penalty = 1e-6},
           {.repetition_penalty = 1e6},
           {.presence_penalty = 100, .frequency_penalty = -100},
           {.no_repeat_ngram_size = 256},
           {.logit_bias = {{0, -100}, {kVocab - 1, 100}}},
           {.bad_words = {"a"}, .bad_token_ids = {{0, kVocab - 1}}},
           {.max_tokens = 3, .min_tokens = 3},
           {.stop = {"a", "b", "c", "d", "e"}, .stop_token_ids = {0, kVocab - 1}},
           {.n = 128, .best_of = 128},
           {.logprobs = kVocab, .prompt_logprobs = 0},
           {.temperature = 0, .n = 4, .beam_width = 4},
           {.n = 2,
            .best_of = 128,
            .beam_width = 128,
            .length_penalty = -10,
            .early_stopping = EarlyStopping::kNever,
            .beam_search_diversity_rate = 1}})
    EXPECT_EQ(check_sampling(params, kVocab), "");
}

}  // namespace
}  // namespace ingot
