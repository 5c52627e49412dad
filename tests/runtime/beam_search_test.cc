#include "runtime/beam_search.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "runtime/logit_row.h"
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ingot {
namespace {

Json fixture(const std::string& name) {
  const std::string path = std::string(INGOT_FIXTURES) + "/beams/" + name;
  return parse_json(read_file(path), path);
}

// Logits are the sum of a row for the last token and one for the token before it.
class TableModel {
 public:
  TableModel() {
    const Json table = fixture("table.json");
    vocab_ = table.at("vocab").get<std::size_t>();
    pad_ = table.at("pad").get<std::size_t>();
    const auto read = [&](const char* key) {
      std::vector<float> values;
      for (const int x : table.at(key)) values.push_back(static_cast<float>(x) / 65536.0f);
      return values;
    };
    last_ = read("last");
    before_ = read("before");
  }
  std::size_t vocab() const { return vocab_; }
  std::vector<float> logits(const std::vector<std::int32_t>& tokens) const {
    const auto id = [&](std::size_t back) {
      return back < tokens.size() ? static_cast<std::size_t>(tokens[tokens.size() - 1 - back])
                                  : pad_;
    };
    std::vector<float> row(vocab_);
    for (std::size_t i = 0; i < vocab_; ++i)
      row[i] = last_[id(0) * vocab_ + i] + before_[id(1) * vocab_ + i];
    return row;
  }

 private:
  std::size_t vocab_ = 0;
  std::size_t pad_ = 0;
  std::vector<float> last_, before_;  // [vocab, vocab]
};

// What an engine does: one row and one state a beam, copied where a beam forks.
class Driver {
 public:
  struct Beam {
    std::vector<std::int32_t> tokens;
    SamplingState state;
  };

  Driver(const TableModel& model, SamplingParams params, std::vector<std::int32_t> prompt)
      : model_(model), params_(std::move(params)), prompt_(std::move(prompt)) {}

  std::vector<BeamHypothesis> run(const BeamOptions& options, const BeamSearch::Stops& stops = {}) {
    BeamSearch search(options);
    beams_ = {{prompt_, SamplingState(params_, prompt_)}};
    while (search.live() > 0) {
      EXPECT_EQ(search.live(), beams_.size());
      std::vector<float> rows;
      for (const Beam& beam : beams_) {
        const std::vector<float> row = scores(beam, options);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      std::vector<Beam> next;
      for (const BeamStep& step : search.advance(rows, stops)) {
        next.push_back(beams_.at(static_cast<std::size_t>(step.parent)));
        next.back().tokens.push_back(step.token);
        next.back().state.push(step.token);
      }
      beams_ = std::move(next);
    }
    return search.best(static_cast<std::size_t>(options.width));
  }

 private:
  std::vector<float> scores(const Beam& beam, const BeamOptions& options) {
    std::vector<float> row = model_.logits(beam.tokens);
    log_softmax(row, row);
    std::vector<std::int32_t> forbidden;
    if (beam.state.generated() < static_cast<std::size_t>(params_.min_tokens))
      forbidden = options.end_ids;
    sampler_.apply(row, params_, {.state = beam.state, .forbidden = forbidden});
    return row;
  }

  const TableModel& model_;
  SamplingParams params_;
  std::vector<std::int32_t> prompt_;
  std::vector<Beam> beams_;
  Sampler sampler_;
};

EarlyStopping early_stopping(const Json& value) {
  if (value.is_string()) return EarlyStopping::kNever;
  return value.get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kHeuristic;
}

BeamOptions options_of(const Json& c) {
  BeamOptions o{.width = c.at("num_beams"),
                .length_penalty = c.at("length_penalty"),
                .early_stopping = early_stopping(c.at("early_stopping")),
                .diversity_rate = c.at("beam_search_diversity_rate"),
                .max_tokens = c.at("max_new_tokens")};
  if (!c.at("eos_token_id").is_null())
    o.end_ids = c.at("eos_token_id").get<std::vector<std::int32_t>>();
  return o;
}

TEST(BeamSearchTest, EqualsTransformers) {
  const TableModel model;
  const Json cases = fixture("cases.json");
  ASSERT_GE(cases.size(), 100u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& c = cases[i];
    SCOPED_TRACE(c.dump());
    SamplingParams p;
    p.repetition_penalty = c.value("repetition_penalty", 1.0);
    p.no_repeat_ngram_size = c.value("no_repeat_ngram_size", 0);
    p.min_tokens = c.value("min_new_tokens", 0);
    p.bad_token_ids = c.value("bad_words_ids", std::vector<std::vector<std::int32_t>>());
    Driver driver(model, p, c.at("prompt"));
    const std::vector<BeamHypothesis> found = driver.run(options_of(c));
    const Json& wanted = c.at("hypotheses");
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      EXPECT_EQ(found[k].tokens, wanted[k].at("tokens").get<std::vector<std::int32_t>>());
      const double score = wanted[k].at("score");
      EXPECT_NEAR(found[k].score, score, 2e-6 * (1 + std::abs(score)));
    }
  }
}

constexpr float kNever = -std::numeric_limits<float>::infinity();
using Ids = std::vector<std::int32_t>;

// With a penalty that shortens, a beam is judged by its present length: it never reaches more.
TEST(BeamSearchTest, APenaltyThatShortensBoundsByThePresentLength) {
  BeamSearch search({.width = 2,
                     .length_penalty = -1.0,
                     .early_stopping = EarlyStopping::kNever,
                     .end_ids = {3},
                     .max_tokens = 20});
  search.advance(std::vector<float>{-0.1f, -9.0f, -9.5f, -1.0f});  // [3] ends with -1
  ASSERT_EQ(search.live(), 2u);
  const std::vector<float> second = {-0.1f, -9.0f, -9.5f, -1.0f, -9.0f, -9.0f, -9.0f, -9.0f};
  search.advance(second);  // [0, 3] ends with -1.1 * 2; -0.2 * 20 would be worse
  ASSERT_EQ(search.live(), 2u);
  search.advance(std::vector<float>{-8.0f, -9.0f, -9.5f, -0.05f, -9.0f, -9.0f, -9.0f, -9.0f});
  ASSERT_EQ(search.live(), 0u);
  const std::vector<BeamHypothesis> best = search.best(2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].tokens, (Ids{0, 0, 3}));
  EXPECT_NEAR(best[0].score, -0.75, 1e-6);
  EXPECT_EQ(best[1].tokens, (Ids{3}));
}

// As a grammar does: one way on at first, two later, none at last.
TEST(BeamSearchTest, IsNarrowerWhereFewerTokensAreAllowed) {
  BeamSearch search({.width = 3, .end_ids = {0}, .max_tokens = 9});
  auto steps = search.advance(std::vector<float>{kNever, kNever, -0.5f, kNever});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].token, 2);
  steps = search.advance(std::vector<float>{kNever, -1.0f, kNever, -0.5f});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].token, 3);
  EXPECT_EQ(steps[1].token, 1);
  search.advance(std::vector<float>{-0.1f, kNever, kNever, kNever, -0.2f, kNever, kNever, kNever});
  EXPECT_EQ(search.live(), 0u);
  const std::vector<BeamHypothesis> best = search.best(3);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].tokens, (Ids{2, 3, 0}));
  EXPECT_EQ(best[1].tokens, (Ids{2, 1, 0}));
  EXPECT_NEAR(best[1].score, -1.7 / 3, 1e-6);
  // Nothing at all: the search is over and empty.
  BeamSearch nowhere({.width = 2, .max_tokens = 3});
  EXPECT_TRUE(nowhere.advance(std::vector<float>(4, kNever)).empty());
  EXPECT_EQ(nowhere.live(), 0u);
  EXPECT_TRUE(nowhere.best(2).empty());
}

TEST(BeamSearchTest, AStopEndsAHypothesisAndSaysSo) {
  const TableModel model;
  const BeamOptions options{.width = 3, .end_ids = {3}, .max_tokens = 6};
  Driver plain(model, {}, {5});
  const std::vector<BeamHypothesis> without = plain.run(options);
  const std::int32_t bad = without.front().tokens.front();
  Driver driver(model, {}, {5});
  const auto stops = [&](const BeamStep& step) { return step.token == bad; };
  bool stopped = false;
  for (const BeamHypothesis& h : driver.run(options, stops)) {
    const auto at = std::find(h.tokens.begin(), h.tokens.end(), bad);
    EXPECT_EQ(h.end == BeamEnd::kStopped, at != h.tokens.end());
    EXPECT_TRUE(at == h.tokens.end() || at + 1 == h.tokens.end());
    EXPECT_EQ(h.end == BeamEnd::kEndToken, h.tokens.back() == 3);
    EXPECT_TRUE(h.end != BeamEnd::kLength || h.tokens.size() == 6);
    stopped = stopped || h.end == BeamEnd::kStopped;
  }
  EXPECT_TRUE(stopped);
}

TEST(BeamSearchTest, IsAsWideAsTheVocabularyLets) {
  // Equal scores go by beam and token; more candidates than are kept between two looks.
  BeamSearch search({.width = 100, .max_tokens = 2});
  const auto first = search.advance(std::vector<float>(1000, -1.0f));
  ASSERT_EQ(first.size(), 100u);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i].token, static_cast<std::int32_t>(i));
  std::vector<float> rows(100 * 1000, -2.0f);
  rows[99 * 1000 + 999] = -1.5f;
  EXPECT_TRUE(search.advance(rows).empty());
  const std::vector<BeamHypothesis> best = search.best(2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].tokens, (Ids{99, 999}));
  EXPECT_EQ(best[0].end, BeamEnd::kLength);
  EXPECT_EQ(best[1].tokens, (Ids{0, 0}));
}

TEST(BeamSearchTest, NotANumberEndsTheRequest) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    BeamSearch search({.width = 2, .max_tokens = 3});
    try {
      search.advance(std::vector<float>{-1.0f, bad, -2.0f});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kRequest);
    }
  }
}

}  // namespace
}  // namespace ingot
