// Answers under a grammar, on a tiny random model that would say anything.
#include "base/error.h"
#include "base/file.h"
#include "grammar/mask_machine.h"
#include "llm/model.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

namespace ingot {
namespace {

namespace fs = std::filesystem;

class GuidedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!grammar::MaskEngine::available()) GTEST_SKIP() << "built with -DINGOT_GRAMMAR=OFF";
    test::EditedCheckpoint checkpoint(fs::path(INGOT_FIXTURES) / "models" / "llama");
    checkpoint.config()["max_position_embeddings"] = 512;
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = 8;
    o.build.max_batch = 8;
    model_ = Model::open(checkpoint.save(), o);
  }
  static Request request(GuidedDecoding guided, std::uint64_t seed) {
    Request r{.prompt = {5, 6, 7}};
    r.sampling = {.temperature = 1.0, .seed = seed, .max_tokens = 40, .logprobs = 0};
    r.guided = std::move(guided);
    return r;
  }
  std::map<RequestId, std::vector<OutputEvent>> finish_all(
      EngineLoop& loop, const std::function<void()>& after_step = [] {}) {
    std::map<RequestId, std::vector<OutputEvent>> all;
    for (; loop.has_work(); after_step())
      for (OutputEvent& e : loop.step()) {
        auto& answers = all[e.id];
        answers.resize(std::max(answers.size(), static_cast<std::size_t>(e.index) + 1));
        OutputEvent& whole = answers[static_cast<std::size_t>(e.index)];
        e.text = whole.text + e.text;
        e.tokens.insert(e.tokens.begin(), whole.tokens.begin(), whole.tokens.end());
        e.logprobs.insert(e.logprobs.begin(), whole.logprobs.begin(), whole.logprobs.end());
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

// A grammar that gets dearer with every token ends its own request, drawn or searched for, with an
// error that names it; a mask that allows nothing is none of the neighbours' business.
TEST_F(GuidedTest, AnExhaustedGrammarEndsItsOwnRequestOnly) {
  EngineLoop& loop = model_->loop();
  const std::int32_t a = model_->tokenizer().token_id("a").value();
  const GuidedDecoding digits{.kind = GuidedKind::kRegex, .text = "[0-9]{30,60}"};
  const auto tokens_of = [&](const Request& r) {
    const RequestId id = loop.submit(r).value_or_throw();
    return finish_all(loop).at(id).at(0).tokens;
  };
  const Request plain = request({}, 1), guided = request(digits, 2);
  const auto plain_tokens = tokens_of(plain), guided_tokens = tokens_of(guided);
  for (const std::int32_t beams : {1, 2}) {
    Request ambiguous = request({.kind = GuidedKind::kGrammar,
                                 .text = "root ::= x x x\nx ::= \"\" | \"a\" x | x \"a\" | x x"},
                                1);
    ambiguous.sampling = {
        .temperature = 0, .logit_bias = {{a, 100}}, .max_tokens = 500, .beam_width = beams};
    const RequestId id = loop.submit(ambiguous).value_or_throw();
    const RequestId beside = loop.submit(plain).value_or_throw();
    const RequestId also = loop.submit(guided).value_or_throw();
    const auto all = finish_all(loop);
    const OutputEvent& e = all.at(id).at(0);
    EXPECT_EQ(e.finish, FinishReason::kError);
    EXPECT_EQ(e.error_code, ErrorCode::kRequest);
    EXPECT_EQ(e.error.substr(0, 13), "[guided.work]") << e.error;
    EXPECT_TRUE(e.last);
    EXPECT_EQ(all.at(beside).at(0).tokens, plain_tokens);
    EXPECT_EQ(all.at(also).at(0).tokens, guided_tokens);
    EXPECT_EQ(loop.scheduler().cache().available(), loop.scheduler().cache().capacity());
  }
}

// Whoever lacks a mask sits out until it is made: the answers are the same, alone and of many,
// drawn, guessed and searched for.
TEST_F(GuidedTest, SittingOutForMasksChangesNoAnswer) {
  std::vector<Request> requests;
  for (const std::uint64_t seed : {1, 2}) {
    requests.push_back(request({}, seed));
    requests.push_back(request({.kind = GuidedKind::kRegex, .text = "(ab|cd|ef){4,12}!"}, seed));
    requests.push_back(request({.kind = GuidedKind::kJsonObject}, seed));
    requests.back().sampling.n = 2;
    requests.push_back(request({.kind = GuidedKind::kRegex, .text = "[0-9]{3}(-[a-c]+)?"}, seed));
    requests.back().sampling.prompt_logprobs = 1;
  }
  requests.push_back(request({.kind = GuidedKind::kRegex, .text = "(gh|ij|kl){4,12}!"}, 0));
  requests.back().sampling = {.temperature = 0, .max_tokens = 40, .n = 2, .beam_width = 2};
  std::vector<std::vector<OutputEvent>> wanted;
  for (const Request& r : requests) {
    const RequestId id = model_->loop().submit(r).value_or_throw();
    wanted.push_back(finish_all(model_->loop()).at(id));
  }
  for (const std::int32_t drafts : {0, 4}) {
    if (drafts > 0) requests.pop_back();  // beams are not guessed
    model_->loop().forget_pages();
    EngineLoop::Options hasty{.draft_tokens = drafts, .mask_seconds_of_step = 0};
    hasty.grammars.warm_seconds = 0;
    EngineLoop loop(model_->executor(), model_->info(), &model_->tokenizer(), hasty);
    std::vector<RequestId> ids;
    for (const Request& r : requests) ids.push_back(loop.submit(r).value_or_throw());
    std::set<RequestId> ran;
    int sat_out = 0;  // steps, of requests that had run
    const auto found = finish_all(loop, [&] {
      for (const RequestId id : ids) {
        const RequestState state = loop.scheduler().state(id);
        if (state.phase == Phase::kRunning) ran.insert(id);
        sat_out += state.reason == WaitReason::kNotReady && ran.contains(id);
      }
      loop.scheduler().check_integrity();
    });
    EXPECT_GT(sat_out, 0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(found.at(ids[i]).size(), wanted[i].size());
      for (std::size_t a = 0; a < wanted[i].size(); ++a) {
        EXPECT_EQ(found.at(ids[i])[a].tokens, wanted[i][a].tokens) << "request " << i;
        EXPECT_EQ(found.at(ids[i])[a].text, wanted[i][a].text);
        EXPECT_EQ(found.at(ids[i])[a].finish, wanted[i][a].finish);
      }
    }
  }
}

// However many grammars are dear to follow, they share a part of the time, and the others have the
// rest.
TEST_F(GuidedTest, DearGrammarsSitOutSteps) {
  EngineLoop& loop = model_->loop();
  const std::int32_t a = model_->tokenizer().token_id("a").value();
  Request plain = request({}, 1);
  plain.sampling.ignore_eos = true;
  plain.sampling.max_tokens = 400;
  const RequestId alone = loop.submit(plain).value_or_throw();
  const auto tokens = finish_all(loop).at(alone).at(0).tokens;
  std::vector<RequestId> dear;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Request r = request({.kind = GuidedKind::kGrammar,
                         .text = "root ::= x x x\nx ::= \"\" | \"a\" x | x \"a\" | x x"},
                        seed);
    r.sampling = {.temperature = 0, .logit_bias = {{a, 100}}, .max_tokens = 500};
    dear.push_back(loop.submit(r).value_or_throw());
  }
  const RequestId beside = loop.submit(plain).value_or_throw();
  int without = 0;  // steps that somebody sat out
  const auto all = finish_all(loop, [&] {
    if (loop.scheduler().state(beside).phase != Phase::kRunning) {
      for (const RequestId id : dear) loop.cancel(id);
      return;
    }
    without += loop.last_step().sequences < loop.last_step().running;
  });
  EXPECT_GT(without, 10);
  EXPECT_EQ(all.at(beside).at(0).tokens, tokens);
}

// Masks that take forever are the trouble of their own request, which can be cancelled meanwhile.
TEST_F(GuidedTest, MasksThatTakeForeverEndTheirOwnRequestOnly) {
  const GuidedDecoding dear{.kind = GuidedKind::kRegex, .text = "(\\w{0,20}(, )?){100}"};
  const RequestId alone = model_->loop().submit(request({}, 1)).value_or_throw();
  const auto tokens = finish_all(model_->loop()).at(alone).at(0).tokens;
  EngineLoop::Options options{.mask_seconds_of_step = 0.001, .mask_seconds_of_request = 0.02};
  options.grammars.warm_seconds = 0;
  EngineLoop loop(model_->executor(), model_->info(), &model_->tokenizer(), options);
  const RequestId id = loop.submit(request(dear, 1)).value_or_throw();
  const RequestId beside = loop.submit(request({}, 1)).value_or_throw();
  const auto all = finish_all(loop);
  const OutputEvent& e = all.at(id).at(0);
  EXPECT_EQ(e.finish, FinishReason::kError);
  EXPECT_EQ(e.error_code, ErrorCode::kRequest);
  EXPECT_EQ(e.error.substr(0, 13), "[guided.work]") << e.error;
  EXPECT_EQ(all.at(beside).at(0).tokens, tokens);
  EXPECT_EQ(loop.scheduler().cache().available(), loop.scheduler().cache().capacity());

  options.mask_seconds_of_request = 1e9;
  EngineLoop patient(model_->executor(), model_->info(), &model_->tokenizer(), options);
  const RequestId cancelled = patient.submit(request(dear, 1)).value_or_throw();
  while (patient.scheduler().state(cancelled).phase != Phase::kRunning) patient.step();
  while (patient.scheduler().state(cancelled).reason != WaitReason::kNotReady) patient.step();
  patient.cancel(cancelled);
  EXPECT_EQ(finish_all(patient).at(cancelled).at(0).finish, FinishReason::kCancelled);
}

// A model that wants nothing but white space completes its object.
TEST_F(GuidedTest, WhiteSpaceDoesNotRunAway) {
  EngineLoop& loop = model_->loop();
  Request r = request({.kind = GuidedKind::kJsonSchema,
                       .text = R"({"type": "object", "properties": {"a": {"type": "integer"},
                                   "b": {"type": "boolean"}}, "required": ["a", "b"]})"},
                      1);
  // Spaces may stand in a string, where they are what the model says.
  for (const auto& [kind, wanted] : {std::pair(GuidedKind::kJsonSchema, " \n\t\r"),
                                     std::pair(GuidedKind::kJsonObject, "\n\t\r")}) {
    r.sampling = {.temperature = 1, .seed = 4, .max_tokens = 400};
    r.sampling.logit_bias[model_->tokenizer().token_id("}").value()] = 50;  // no endless strings
    for (std::int32_t t = 0; t < model_->tokenizer().vocab_size(); ++t) {
      const std::string bytes = model_->tokenizer().token_bytes(t);
      if (!bytes.empty() && bytes.find_first_not_of(wanted) == std::string::npos)
        r.sampling.logit_bias[t] = 100;
    }
    ASSERT_GE(r.sampling.logit_bias.size(), 4u);
    r.guided.kind = kind;
    const RequestId id = loop.submit(r).value_or_throw();
    const auto answers = finish_all(loop);
    const OutputEvent& e = answers.at(id).at(0);
    EXPECT_EQ(e.finish, FinishReason::kStop) << e.text;
    EXPECT_NO_THROW(parse_json(e.text, "the answer"));
    std::size_t run = 0, longest = 0;
    for (const char c : e.text)
      longest = std::max(
          longest, run = std::string_view(" \n\t\r").find(c) == std::string::npos ? 0 : run + 1);
    EXPECT_EQ(longest, 16u) << e.text;
  }
}

// Of what the model says, not of what the mask leaves of it.
TEST_F(GuidedTest, LogprobsAreOfTheRawSoftmax) {
  EngineLoop& loop = model_->loop();
  Request r = request({.kind = GuidedKind::kRegex, .text = "[0-9]{12}"}, 5);
  r.sampling.logprobs = 2;
  const RequestId id = loop.submit(r).value_or_throw();
  const auto answers = finish_all(loop);
  const OutputEvent& e = answers.at(id).at(0);
  ASSERT_EQ(e.logprobs.size(), e.tokens.size());
  ASSERT_GE(e.tokens.size(), 4u);
  std::vector<std::int32_t> whole = r.prompt;
  whole.insert(whole.end(), e.tokens.begin(), e.tokens.end());
  Logprobs logprobs;
  int others = 0;  // places where the likeliest is not allowed
  model_->score(whole, 0, [&](std::int64_t first, std::int64_t count, std::span<const float> rows) {
    const auto vocab = static_cast<std::size_t>(model_->info().vocab);
    for (std::int64_t row = 0; row < count; ++row) {
      const auto next = static_cast<std::size_t>(first + row) + 1;
      if (next < r.prompt.size() || next == whole.size()) continue;
      const TokenLogprob& got = e.logprobs[next - r.prompt.size()];
      const TokenLogprob wanted =
          logprobs.of(rows.subspan(static_cast<std::size_t>(row) * vocab, vocab), whole[next], 2);
      EXPECT_EQ(got.logprob, wanted.logprob);
      EXPECT_EQ(got.top, wanted.top);
      others += got.top[0].first != got.token;
    }
  });
  EXPECT_GT(others, 0);
}

// A callback acts before the grammar: it may choose among what is allowed, and no more.
TEST_F(GuidedTest, ACallbackChoosesAmongWhatTheGrammarAllows) {
  EngineLoop& loop = model_->loop();
  const Tokenizer& tokenizer = model_->tokenizer();
  const std::int32_t z = tokenizer.token_id("z").value(), n = tokenizer.token_id("n").value();
  for (const std::int32_t beams : {1, 2}) {
    Request r = request({.kind = GuidedKind::kChoice, .choices = {"yes", "no"}}, 1);
    r.sampling = {.temperature = 0, .max_tokens = 40, .beam_width = beams};
    r.change_logits = [&](const LogitsView& view) {
      view.logits[static_cast<std::size_t>(z)] = 1000;
      view.logits[static_cast<std::size_t>(n)] = 900;
    };
    const RequestId id = loop.submit(r).value_or_throw();
    EXPECT_EQ(finish_all(loop).at(id).at(0).text, "no");
  }
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
