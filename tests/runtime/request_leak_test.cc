// A request leaves no memory behind, whatever it asks for and however it ends.
#include "base/file.h"

#include <gtest/gtest.h>

#include "tests/runtime/allocation_count.h"
#include "tests/runtime/bigram_model.h"
#include <stdexcept>
#include <utility>

namespace ingot {
namespace {

using test::BigramModel;

struct Feature {
  const char* name;
  std::function<void(Request&, std::int32_t)> ask;  // of request number n
  bool cancelled = false;
};

std::vector<Feature> features() {
  return {
      {"nothing", [](Request&, std::int32_t) {}},
      {"stop", [](Request& r, std::int32_t n) { r.sampling.stop = {"C", std::to_string(n)}; }},
      {"stop_token_ids", [](Request& r, std::int32_t n) { r.sampling.stop_token_ids = {n % 300}; }},
      {"logit_bias", [](Request& r, std::int32_t n) { r.sampling.logit_bias = {{n % 300, 1.0}}; }},
      {"bad_words", [](Request& r, std::int32_t n) { r.sampling.bad_words = {std::to_string(n)}; }},
      {"penalties",
       [](Request& r, std::int32_t) {
         r.sampling.frequency_penalty = 0.1;
         r.sampling.no_repeat_ngram_size = 2;
         r.sampling.top_p_decay = 0.9;
       }},
      {"seed",
       [](Request& r, std::int32_t n) {
         r.sampling.temperature = 2;
         r.sampling.seed = static_cast<std::uint64_t>(n);
       }},
      {"logprobs",
       [](Request& r, std::int32_t) { r.sampling.logprobs = r.sampling.prompt_logprobs = 20; }},
      {"answers", [](Request& r, std::int32_t) { r.sampling.n = 2; }},
      {"best_of",
       [](Request& r, std::int32_t) {
         r.sampling.best_of = 3;
         r.sampling.logprobs = 1;
       }},
      {"beams",
       [](Request& r, std::int32_t) {
         r.sampling.beam_width = 3;
         r.sampling.logprobs = 1;
       }},
      {"salt", [](Request& r, std::int32_t n) { r.cache_salt = std::to_string(n); }},
      {"unshared", [](Request& r, std::int32_t) { r.share_cache = false; }},
      {"deadline", [](Request& r, std::int32_t) { r.deadline = 1e-9; }},
      {"cancelled", [](Request& r, std::int32_t) { r.sampling.n = 2; }, true},
      {"callback", [](Request& r, std::int32_t) { r.change_logits = [](const LogitsView&) {}; }},
      {"throwing",
       [](Request& r, std::int32_t) {
         r.change_logits = [](const LogitsView&) { throw std::runtime_error("no"); };
       }},
      {"refused", [](Request& r, std::int32_t) { r.sampling.top_p = 2; }},
  };
}

TEST(RequestLeakTest, NoFeatureGrowsWithTheNumberOfRequests) {
  if (!test::counts_allocations()) GTEST_SKIP() << "a sanitizer's build does not count";
  const Tokenizer tokenizer =
      tokenizer_from_json(read_file(std::string(INGOT_FIXTURES) + "/models/llama/tokenizer.json"));
  for (const std::int32_t drafts : {0, 3}) {
    BigramModel model({.max_batch = 3, .kv_pages = 24, .loop = {.draft_tokens = drafts}},
                      &tokenizer);
    EngineLoop& loop = model.loop();
    std::int32_t number = 0;
    for (const Feature& feature : features()) {
      SCOPED_TRACE(feature.name);
      if (drafts > 0 && feature.name == std::string("beams")) continue;
      const auto ask = [&](int requests) {
        for (int i = 0; i < requests; ++i) {
          Request r{.prompt = {7 + number % 50, 5, 7, 9, 11}};
          r.sampling.temperature = 0;
          r.sampling.max_tokens = 3;
          feature.ask(r, number++);
          const auto id = loop.submit(std::move(r));
          if (id && feature.cancelled) {
            loop.step();
            loop.cancel(*id);
          }
          while (loop.has_work()) loop.step([](OutputEvent&&) {});
        }
      };
      ask(60);  // tables and pages have their size now
      const std::int64_t before = test::live_bytes();
      ask(150);
      // The smallest block is 24 bytes.
      EXPECT_LT(test::live_bytes() - before, 150 * 12);
    }
  }
}

}  // namespace
}  // namespace ingot
