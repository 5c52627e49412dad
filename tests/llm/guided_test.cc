// Answers under a grammar, on a tiny random model that would say anything.
#include "base/error.h"
#include "base/file.h"
#include "grammar/mask_machine.h"
#include "llm/model.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

namespace ingot {
namespace {

namespace fs = std::filesystem;

class GuidedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!grammar::MaskEngine::available()) GTEST_SKIP() << "built with -DINGOT_GRAMMAR=OFF";
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = 8;
    o.build.max_batch = 8;
    model_ = Model::open(fs::path(INGOT_FIXTURES) / "models" / "llama", o);
  }
  static Request request(GuidedDecoding guided, std::uint64_t seed) {
    Request r{.prompt = {5, 6, 7}};
    r.sampling = {.temperature = 1.0, .seed = seed, .max_tokens = 40, .logprobs = 0};
    r.guided = std::move(guided);
    return r;
  }
  std::map<RequestId, std::vector<OutputEvent>> finish_all(EngineLoop& loop) {
    std::map<RequestId, std::vector<OutputEvent>> all;
    while (loop.has_work())
      for (OutputEvent& e : loop.step()) {
        auto& answers = all[e.id];
        answers.resize(std::max(answers.size(), static_cast<std::size_t>(e.index) + 1));
        OutputEvent& whole = answers[static_cast<std::size_t>(e.index)];
        e.text = whole.text + e.text;
        e.tokens.insert(e.tokens.begin(), whole.tokens.begin(), whole.tokens.end());
        whole = std::move(e);
      }
    loop.scheduler().check_integrity();
    return all;
  }

  test::OwnCache cache_;
  std::unique_ptr<Model> model_;
};

TEST_F(GuidedTest, AnswersMatchWhateverTheModelWouldSay) {
  EngineLoop& loop = model_->loop();
  const GuidedDecoding digits{.kind = GuidedKind::kRegex, .text = "[0-9]{3}(-[a-c]+)?"};
  const GuidedDecoding choice{.kind = GuidedKind::kChoice, .choices = {"yes", "no", "perhaps"}};
  std::map<RequestId, const GuidedDecoding*> asked;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    asked[loop.submit(request(digits, seed)).value_or_throw()] = &digits;
    asked[loop.submit(request(choice, seed)).value_or_throw()] = &choice;
    asked[loop.submit(request({}, seed)).value_or_throw()] = nullptr;
  }
  int stopped = 0;
  for (const auto& [id, answers] : finish_all(loop)) {
    const OutputEvent& e = answers.at(0);
    ASSERT_NE(e.finish, FinishReason::kError) << e.error;
    if (!asked.at(id) || e.finish != FinishReason::kStop) continue;
    ++stopped;
    EXPECT_TRUE(std::regex_match(
        e.text, std::regex(asked.at(id) == &digits ? digits.text : "yes|no|perhaps")))
        << e.text;
  }
  EXPECT_GE(stopped, 8);
}

TEST_F(GuidedTest, GuessesBeamsAndSeveralAnswersKeepToTheGrammar) {
  const GuidedDecoding words{.kind = GuidedKind::kRegex, .text = "(ab|cd|ef){4,12}!"};
  const std::regex pattern(words.text);
  EngineLoop guessing(model_->executor(), model_->info(), &model_->tokenizer(),
                      {.draft_tokens = 5});
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Request r = request(words, seed);
    r.share_cache = false;
    r.sampling.n = 2;
    const RequestId plain = model_->loop().submit(r).value_or_throw();
    const auto alone = finish_all(model_->loop()).at(plain);
    const RequestId guessed = guessing.submit(r).value_or_throw();
    const auto with_guesses = finish_all(guessing).at(guessed);
    ASSERT_EQ(alone.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(with_guesses.at(i).tokens, alone[i].tokens);
      if (alone[i].finish == FinishReason::kStop) {
        EXPECT_TRUE(std::regex_match(alone[i].text, pattern)) << alone[i].text;
      }
    }
  }
  Request beams = request(words, 0);
  beams.sampling = {.temperature = 0, .max_tokens = 40, .n = 3, .beam_width = 3};
  const RequestId id = model_->loop().submit(beams).value_or_throw();
  int stopped = 0;
  const auto found = finish_all(model_->loop());
  for (const OutputEvent& e : found.at(id)) {
    ASSERT_NE(e.finish, FinishReason::kError) << e.error;
    if (e.finish != FinishReason::kStop) continue;
    ++stopped;
    EXPECT_TRUE(std::regex_match(e.text, pattern)) << e.text;
  }
  EXPECT_GT(stopped, 0);
}

// An end token that nobody else may draw ends what a grammar ends, beams too.
TEST_F(GuidedTest, AGrammarEndsBeamsThatIgnoreEndTokens) {
  Request r = request({.kind = GuidedKind::kRegex, .text = "ab|cd|ef"}, 0);
  r.sampling = {.temperature = 0, .max_tokens = 40, .ignore_eos = true, .n = 2, .beam_width = 2};
  const RequestId id = model_->loop().submit(r).value_or_throw();
  const auto found = finish_all(model_->loop());
  ASSERT_EQ(found.at(id).size(), 2u);
  for (const OutputEvent& e : found.at(id)) {
    EXPECT_EQ(e.finish, FinishReason::kStop) << e.error;
    EXPECT_TRUE(std::regex_match(e.text, std::regex("ab|cd|ef"))) << e.text;
  }
}

// Nothing may come: that is the request's own error, with beams as without.
TEST_F(GuidedTest, BeamsThatMayNotGoOnFailAlone) {
  EngineLoop& loop = model_->loop();
  std::vector<RequestId> ids;
  for (const std::int32_t width : {1, 2}) {
    Request r = request({.kind = GuidedKind::kRegex, .text = "a"}, 0);
    r.sampling = {.temperature = 0, .max_tokens = 40, .beam_width = width};
    r.change_logits = [](const LogitsView& view) {
      std::ranges::fill(view.logits, -std::numeric_limits<float>::infinity());
    };
    ids.push_back(loop.submit(r).value_or_throw());
  }
  const RequestId neighbour = loop.submit(request({}, 1)).value_or_throw();
  const auto all = finish_all(loop);
  for (const RequestId id : ids) {
    const OutputEvent& e = all.at(id).at(0);
    EXPECT_EQ(e.finish, FinishReason::kError);
    EXPECT_EQ(e.error_code, ErrorCode::kRequest);
    EXPECT_NE(e.error.find("no token is allowed"), std::string::npos) << e.error;
  }
  EXPECT_NE(all.at(neighbour).at(0).finish, FinishReason::kError);
}

// A grammar that cannot be is refused, at once or when it is known, and holds up nobody.
TEST_F(GuidedTest, ABadGrammarEndsItsOwnRequestOnly) {
  EngineLoop& loop = model_->loop();
  const RequestId neighbour = loop.submit(request({}, 1)).value_or_throw();
  std::vector<RequestId> bad;
  int refused = 0;
  for (const GuidedDecoding& g : std::vector<GuidedDecoding>{
           {.kind = GuidedKind::kRegex, .text = "("},
           {.kind = GuidedKind::kJsonSchema, .text = R"({"type": "strng"})"},
           {.kind = GuidedKind::kJsonSchema, .text = "null"},
           {.kind = GuidedKind::kGrammar, .text = "root ::= nobody"},
           {.kind = GuidedKind::kChoice}}) {
    const auto result = loop.submit(request(g, 1));
    if (result.ok()) {
      bad.push_back(result.value());
      continue;
    }
    ++refused;
    EXPECT_EQ(result.error().code(), ErrorCode::kRequest);
    EXPECT_EQ(result.error().message().substr(0, 8), "[guided.") << result.error().message();
  }
  const auto all = finish_all(loop);
  for (const RequestId id : bad) {
    const OutputEvent& e = all.at(id).at(0);
    EXPECT_EQ(e.finish, FinishReason::kError);
    EXPECT_EQ(e.error_code, ErrorCode::kRequest);
    EXPECT_EQ(e.error.substr(0, 8), "[guided.") << e.error;
    EXPECT_TRUE(e.last);
  }
  EXPECT_EQ(bad.size() + static_cast<std::size_t>(refused), 5u);
  EXPECT_NE(all.at(neighbour).at(0).finish, FinishReason::kError);
  EXPECT_EQ(loop.scheduler().cache().available(), loop.scheduler().cache().capacity());
  Request ends_early = request({.kind = GuidedKind::kJsonObject}, 1);
  ends_early.sampling.min_tokens = 3;
  EXPECT_FALSE(loop.submit(ends_early).ok());
}

TEST_F(GuidedTest, ACancelledRequestNeedsNoGrammar) {
  EngineLoop& loop = model_->loop();
  std::string schema = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 200; ++i)
    schema += (i ? ", \"p" : "\"p") + std::to_string(i) + R"(": {"type": "string"})";
  schema += "}}";
  const RequestId id =
      loop.submit(request({.kind = GuidedKind::kJsonSchema, .text = schema}, 1)).value_or_throw();
  EXPECT_EQ(loop.scheduler().state(id).reason, WaitReason::kNotReady);
  loop.cancel(id);
  const auto all = finish_all(loop);
  EXPECT_EQ(all.at(id).at(0).finish, FinishReason::kCancelled);
}

}  // namespace
}  // namespace ingot
