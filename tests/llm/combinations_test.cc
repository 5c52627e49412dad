// Every set of {beams, streaming, reuse, guidance, speculation}: together they do what each does
// alone, or the request is refused with the field's name.
#include "base/error.h"
#include "base/json.h"
#include "grammar/mask_machine.h"
#include "llm/model.h"
#include "llm/request_json.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/llm/long_model.h"
#include "tests/llm/whole_answers.h"
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <utility>

namespace ingot {
namespace {

namespace fs = std::filesystem;

struct Features {
  bool beams = false;
  bool streaming = false;
  bool reuse = false;
  bool guidance = false;
  bool speculation = false;
};

const char* kPattern = "(ab|cd){6,14}!";

class CombinationsTest : public testing::TestWithParam<unsigned> {
 protected:
  CombinationsTest() : checkpoint_(fs::path(INGOT_FIXTURES) / "models" / "llama") {
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = 4;
    model_ = Model::open(checkpoint_.path(), o);
  }

  static Features features() {
    const unsigned bits = GetParam();
    return {.beams = (bits & 1) != 0,
            .streaming = (bits & 2) != 0,
            .reuse = (bits & 4) != 0,
            .guidance = (bits & 8) != 0,
            .speculation = (bits & 16) != 0};
  }

  Result<Request> request(const Features& f) {
    OrderedJson body = {{"temperature", 0},
                        {"max_tokens", 40},
                        {"logit_bias", {{"7", 6.0}, {"9", 5.5}}},  // it repeats itself
                        {"stream", f.streaming}};
    for (int i = 0; i < 150; ++i) body["prompt_token_ids"].push_back((i * i + 5) % 300);
    if (f.beams) body["beam_width"] = 2;
    if (!f.beams) body["logprobs"] = 2;
    if (f.guidance) body["guided_regex"] = kPattern;
    if (!f.guidance) body["ignore_eos"] = true;
    return request_from_json(body, *model_);
  }

  // Its only answer, and how many events told of it.
  struct Told {
    OutputEvent answer;
    int events = 0;
  };
  static Result<Told> ask(EngineLoop& loop, Request request) {
    const Result<RequestId> id = loop.submit(std::move(request));
    if (!id) return id.error();
    Told told;
    test::WholeAnswers answers;
    while (loop.has_work())
      loop.step([&](OutputEvent&& event) {
        ++told.events;
        answers.take(std::move(event));
      });
    loop.scheduler().check_integrity();
    EXPECT_EQ(answers.wrong(), "");
    told.answer = answers.of(*id).at(0);
    return told;
  }

  test::OwnCache cache_;
  test::LongModel checkpoint_;
  std::unique_ptr<Model> model_;
};

TEST_P(CombinationsTest, DoWhatEachDoesOrAreRefusedByName) {
  const Features f = features();
  if (f.guidance && !grammar::MaskEngine::available()) GTEST_SKIP() << "-DINGOT_GRAMMAR=OFF";
  Result<Request> wanted = request(f);
  if (f.beams && f.streaming) {
    ASSERT_FALSE(wanted.ok());
    EXPECT_EQ(wanted.error().code(), ErrorCode::kRequest);
    EXPECT_EQ(wanted.error().message().substr(0, 16), "[request.stream]");
    return;
  }
  const Request asked = std::move(wanted).value_or_throw();
  EngineLoop loop(model_->executor(), model_->info(), &model_->tokenizer(),
                  {.draft_tokens = f.speculation ? 4 : 0});
  if (f.beams && f.speculation) {
    const Result<Told> refused = ask(loop, asked);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kRequest);
    EXPECT_NE(refused.error().message().find("beam_width"), std::string::npos);
    return;
  }
  const Told plain =
      ask(model_->loop(), request({.beams = f.beams, .guidance = f.guidance}).value_or_throw())
          .value_or_throw();
  if (f.reuse) static_cast<void>(ask(loop, asked).value_or_throw());
  const Told told = ask(loop, asked).value_or_throw();
  const OutputEvent& answer = told.answer;
  EXPECT_EQ(test::difference(plain.answer, answer), "");
  EXPECT_GT(std::ssize(answer.tokens), 10);
  EXPECT_EQ(answer.usage.cached_tokens, f.reuse ? 128 : 0);
  EXPECT_EQ(answer.usage.drafted_tokens > 0, f.speculation);
  EXPECT_EQ(answer.usage.accepted_drafts > 0, f.speculation);
  EXPECT_EQ(told.events, f.beams ? 1 : std::ssize(answer.tokens));
  EXPECT_EQ(answer.score != 0, f.beams);
  EXPECT_EQ(std::regex_match(answer.text, std::regex(kPattern)), f.guidance) << answer.text;
}

std::string name_of(const testing::TestParamInfo<unsigned>& info) {
  const char* features[] = {"beams", "streaming", "reuse", "guidance", "speculation"};
  std::string name;
  for (unsigned i = 0; i < 5; ++i)
    if ((info.param >> i & 1) != 0) name += std::string(name.empty() ? "" : "_") + features[i];
  return name.empty() ? "none" : name;
}

INSTANTIATE_TEST_SUITE_P(All, CombinationsTest, testing::Range(0U, 32U), name_of);

}  // namespace
}  // namespace ingot
