// Several answers to a prompt, beams and guesses on tiny models: each is what it is without the
// machinery that makes it cheap.
#include "base/error.h"
#include "base/file.h"
#include "llm/model.h"
#include "runtime/beam_search.h"
#include "runtime/logit_row.h"
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

namespace ingot {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(INGOT_FIXTURES) / "models";

class AnswersTest : public testing::Test {
 protected:
  std::unique_ptr<Model> open(const std::string& name, ComputeMode mode = ComputeMode::kNative) {
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = 8;
    o.build.mode = mode;
    o.build.max_batch = 8;
    return Model::open(kModels / name, o);
  }
  static std::vector<std::int32_t> prompt_of(const std::string& name, std::size_t tokens) {
    const Json json = parse_json(read_file(kModels / name / "tokens.json"), "tokens.json");
    auto prompt = json.at("prompt").get<std::vector<std::int32_t>>();
    prompt.resize(std::min(prompt.size(), tokens));
    return prompt;
  }
  // Whole answers, by index.
  static std::vector<OutputEvent> ask(EngineLoop& loop, const Request& request) {
    const RequestId id = loop.submit(request).value_or_throw();
    std::map<std::int32_t, OutputEvent> answers;
    bool last = false;
    for (int steps = 0; loop.has_work() && steps < 1000; ++steps)
      loop.step([&](OutputEvent&& event) {
        EXPECT_EQ(event.id, id);
        EXPECT_FALSE(last) << "an event after the last";
        last = event.last;
        OutputEvent& whole = answers[event.index];
        event.tokens.insert(event.tokens.begin(), whole.tokens.begin(), whole.tokens.end());
        event.logprobs.insert(event.logprobs.begin(), whole.logprobs.begin(), whole.logprobs.end());
        event.text = whole.text + event.text;
        whole = std::move(event);
      });
    EXPECT_TRUE(last);
    std::vector<OutputEvent> list;
    for (auto& [index, answer] : answers) {
      EXPECT_EQ(index, std::ssize(list));
      EXPECT_NE(answer.finish, FinishReason::kRunning);
      list.push_back(std::move(answer));
    }
    loop.scheduler().check_integrity();
    EXPECT_EQ(loop.scheduler().cache().available(), loop.scheduler().cache().capacity());
    return list;
  }
  static void expect_same(const OutputEvent& a, const OutputEvent& b) {
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.finish, b.finish);
    ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
    for (std::size_t i = 0; i < a.logprobs.size(); ++i) {
      EXPECT_EQ(a.logprobs[i].token, b.logprobs[i].token);
      EXPECT_EQ(a.logprobs[i].logprob, b.logprobs[i].logprob) << "token " << i;
      EXPECT_EQ(a.logprobs[i].top, b.logprobs[i].top);
    }
  }

  test::OwnCache cache_;
};

TEST_F(AnswersTest, EachOfSeveralIsWhatItIsAlone) {
  const auto model = open("llama");
  Request request{.prompt = prompt_of("llama", 19)};
  request.sampling = {.temperature = 1.5,
                      .repetition_penalty = 1.2,
                      .seed = 11,
                      .max_tokens = 12,
                      .n = 4,
                      .logprobs = 2};
  const auto together = ask(model->loop(), request);
  ASSERT_EQ(together.size(), 4u);
  request.sampling.n = 1;
  for (std::size_t i = 0; i < together.size(); ++i) {
    request.sampling.seed = seed_of_answer(11, i);
    expect_same(ask(model->loop(), request).at(0), together[i]);
    EXPECT_EQ(together[i].usage.completion_tokens, std::ssize(together[i].tokens));
  }
  EXPECT_NE(together[0].tokens, together[1].tokens);
}

TEST_F(AnswersTest, TheBestOfManyAreTheLikeliest) {
  const auto model = open("llama");
  Request request{.prompt = prompt_of("llama", 7)};
  request.sampling = {.temperature = 2, .seed = 5, .max_tokens = 6, .n = 5, .logprobs = 0};
  auto all = ask(model->loop(), request);
  const auto mean = [](const OutputEvent& e) {
    double sum = 0;
    for (const TokenLogprob& t : e.logprobs) sum += t.logprob;
    return sum / static_cast<double>(e.logprobs.size());
  };
  std::ranges::stable_sort(all, std::ranges::greater(), mean);
  request.sampling.n = 2;
  request.sampling.best_of = 5;
  const auto best = ask(model->loop(), request);
  ASSERT_EQ(best.size(), 2u);
  expect_same(best[0], all[0]);
  expect_same(best[1], all[1]);
}

TEST_F(AnswersTest, LogprobsOfThePromptAreThoseOfItsTokens) {
  const auto model = open("llama", ComputeMode::kF32);
  Request request{.prompt = prompt_of("llama", 21)};
  request.sampling = {.temperature = 0, .max_tokens = 2, .logprobs = 1, .prompt_logprobs = 3};
  const auto answer = ask(model->loop(), request).at(0);
  // They come with the first event; ask() keeps the last.
  const RequestId id = model->loop().submit(request).value_or_throw();
  std::vector<TokenLogprob> prompt;
  while (model->loop().has_work())
    for (const OutputEvent& e : model->loop().step())
      if (e.id == id && !e.prompt_logprobs.empty()) prompt = e.prompt_logprobs;
  ASSERT_EQ(prompt.size(), 20u);
  Logprobs logprobs;
  std::vector<std::int32_t> whole = request.prompt;
  whole.insert(whole.end(), answer.tokens.begin(), answer.tokens.end());
  model->score(whole, 0, [&](std::int64_t first, std::int64_t count, std::span<const float> rows) {
    const auto vocab = static_cast<std::size_t>(model->info().vocab);
    for (std::int64_t r = 0; r < count; ++r) {
      const auto at = static_cast<std::size_t>(first + r);
      if (at + 1 >= whole.size()) continue;
      const auto row = rows.subspan(static_cast<std::size_t>(r) * vocab, vocab);
      const bool in_prompt = at < prompt.size();
      const TokenLogprob wanted = logprobs.of(row, whole[at + 1], in_prompt ? 3 : 1);
      const TokenLogprob& got = in_prompt ? prompt[at] : answer.logprobs[at - prompt.size()];
      EXPECT_EQ(got.token, wanted.token);
      EXPECT_EQ(got.logprob, wanted.logprob);
      EXPECT_EQ(got.top, wanted.top);
    }
  });
}

// The search with every hypothesis computed from its first token on.
std::vector<BeamHypothesis> search_from_scratch(Model& model, const Request& request) {
  const SamplingParams& p = request.sampling;
  BeamSearch search({.width = p.beam_width,
                     .length_penalty = p.length_penalty,
                     .early_stopping = p.early_stopping,
                     .end_ids = model.info().end_ids,
                     .max_tokens = static_cast<std::size_t>(p.max_tokens)});
  const auto vocab = static_cast<std::size_t>(model.info().vocab);
  std::vector<std::vector<std::int32_t>> beams = {request.prompt};
  while (search.live() > 0) {
    std::vector<float> scores(beams.size() * vocab);
    for (std::size_t b = 0; b < beams.size(); ++b)
      model.score(beams[b], 0, [&](std::int64_t, std::int64_t, std::span<const float> rows) {
        log_softmax(rows.last(vocab), std::span(scores).subspan(b * vocab, vocab));
      });
    std::vector<std::vector<std::int32_t>> next;
    for (const BeamStep& step : search.advance(scores)) {
      next.push_back(beams[static_cast<std::size_t>(step.parent)]);
      next.back().push_back(step.token);
    }
    beams = std::move(next);
  }
  return search.best(static_cast<std::size_t>(p.n));
}

TEST_F(AnswersTest, BeamsAreWhatASearchFromScratchFinds) {
  for (const char* name : {"llama", "mistral"}) {
    const auto model = open(name);
    for (const std::int32_t width : {2, 3, 5})
      for (const double penalty : {0.0, 1.0, 2.0}) {
        Request request{.prompt = prompt_of(name, 11 + static_cast<std::size_t>(width))};
        request.sampling = {.temperature = 0,
                            .max_tokens = 9,
                            .n = width,
                            .beam_width = width,
                            .length_penalty = penalty};
        const auto wanted = search_from_scratch(*model, request);
        const auto got = ask(model->loop(), request);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(got[i].tokens, wanted[i].tokens) << name << " " << width << " " << penalty;
          EXPECT_EQ(got[i].score, wanted[i].score);
        }
      }
  }
}

// Of every token of every beam, from the raw softmax at its place, whatever the parameters do to
// the search; of the prompt too.
TEST_F(AnswersTest, BeamsTellTheLogprobsOfTheirTokens) {
  const auto model = open("llama", ComputeMode::kF32);
  for (const double penalty : {1.0, 1.3}) {
    Request request{.prompt = prompt_of("llama", 9)};
    request.sampling = {.temperature = 0,
                        .repetition_penalty = penalty,
                        .max_tokens = 7,
                        .n = 3,
                        .logprobs = 2,
                        .prompt_logprobs = 1,
                        .beam_width = 4,
                        .length_penalty = 0.5};
    const auto beams = ask(model->loop(), request);
    ASSERT_EQ(beams.size(), 3u);
    EXPECT_EQ(beams[0].prompt_logprobs.size(), request.prompt.size() - 1);
    for (const OutputEvent& beam : beams) {
      ASSERT_EQ(beam.logprobs.size(), beam.tokens.size());
      std::vector<std::int32_t> whole = request.prompt;
      whole.insert(whole.end(), beam.tokens.begin(), beam.tokens.end());
      Logprobs logprobs;
      double sum = 0;
      model->score(
          whole, 0, [&](std::int64_t first, std::int64_t count, std::span<const float> rows) {
            const auto vocab = static_cast<std::size_t>(model->info().vocab);
            for (std::int64_t r = 0; r < count; ++r) {
              const auto next = static_cast<std::size_t>(first + r) + 1;
              if (next < request.prompt.size() || next == whole.size()) continue;
              const TokenLogprob& got = beam.logprobs[next - request.prompt.size()];
              const TokenLogprob wanted = logprobs.of(
                  rows.subspan(static_cast<std::size_t>(r) * vocab, vocab), whole[next], 2);
              EXPECT_EQ(got.token, whole[next]);
              EXPECT_EQ(got.logprob, wanted.logprob);
              EXPECT_EQ(got.top, wanted.top);
              sum += got.logprob;
            }
          });
      const double length = std::pow(static_cast<double>(beam.tokens.size()), 0.5);
      if (penalty == 1.0) {
        EXPECT_NEAR(beam.score, sum / length, 1e-4);
      } else {
        EXPECT_LT(beam.score, sum / length) << "the score is of the search, the rest of the model";
      }
    }
    EXPECT_GE(beams[0].score, beams[1].score);
    EXPECT_GE(beams[1].score, beams[2].score);
  }
}

TEST_F(AnswersTest, GuessesChangeNothing) {
  for (const char* name : {"llama", "mistral", "qwen2"}) {
    const auto model = open(name);
    EngineLoop guessing(model->executor(), model->info(),
                        model->has_tokenizer() ? &model->tokenizer() : nullptr,
                        {.draft_tokens = 5});
    std::mt19937 random(3);
    std::int64_t accepted = 0;
    for (int round = 0; round < 12; ++round) {
      Request request{.prompt = prompt_of(name, 5 + random() % 20)};
      request.share_cache = false;  // each loop has books of its own
      request.sampling = {.temperature = round % 3 == 0 ? 0.0 : 0.7,
                          .repetition_penalty = round % 4 == 1 ? 1.3 : 1.0,
                          .presence_penalty = round % 4 == 2 ? 0.5 : 0.0,
                          .logit_bias = {{7, round % 2 * 12.0}, {9, round % 2 * 11.0}},
                          .seed = round,
                          .max_tokens = 30,
                          .ignore_eos = true,
                          .n = round % 5 == 4 ? 3 : 1,
                          .logprobs = 1};
      const auto plain = ask(model->loop(), request);
      const auto guessed = ask(guessing, request);
      ASSERT_EQ(plain.size(), guessed.size());
      for (std::size_t i = 0; i < plain.size(); ++i) expect_same(plain[i], guessed[i]);
      accepted += guessed[0].usage.accepted_drafts;
      EXPECT_LE(guessed[0].usage.accepted_drafts, guessed[0].usage.drafted_tokens);
    }
    EXPECT_GT(accepted, 0) << name;
    Request beams{.prompt = prompt_of(name, 5)};
    beams.sampling = {.temperature = 0, .beam_width = 2};
    EXPECT_FALSE(guessing.submit(beams).ok());
  }
}

// The model itself guesses best; another one of the same vocabulary guesses badly. Neither changes
// a bit.
TEST_F(AnswersTest, ASmallerModelMayGuess) {
  const auto model = open("llama");
  for (const char* name : {"llama", "llama_f16"}) {
    const auto draft = open(name);
    ASSERT_EQ(draft->info().vocab, model->info().vocab);
    DraftModel guesser(draft->executor(), draft->info(), 4);
    EngineLoop guessing(model->executor(), model->info(), &model->tokenizer(),
                        {.draft_model = &guesser});
    std::mt19937 random(3);
    std::int64_t accepted = 0, drafted = 0;
    for (int round = 0; round < 8; ++round) {
      Request request{.prompt = prompt_of("llama", 5 + random() % 20)};
      request.share_cache = false;
      request.sampling = {.temperature = round % 2 == 0 ? 0.0 : 0.9,
                          .repetition_penalty = round % 4 == 1 ? 1.3 : 1.0,
                          .seed = round,
                          .max_tokens = 30,
                          .ignore_eos = true,
                          .n = round % 4 == 3 ? 3 : 1,
                          .logprobs = 1};
      const auto plain = ask(model->loop(), request);
      const auto guessed = ask(guessing, request);
      ASSERT_EQ(plain.size(), guessed.size());
      for (std::size_t i = 0; i < plain.size(); ++i) expect_same(plain[i], guessed[i]);
      accepted += guessed[0].usage.accepted_drafts;
      drafted += guessed[0].usage.drafted_tokens;
      guesser.check_integrity();
    }
    EXPECT_GT(drafted, 50) << name;
    if (name == std::string("llama")) {
      EXPECT_GT(accepted, drafted * 9 / 10);
    }
  }
}

}  // namespace
}  // namespace ingot
