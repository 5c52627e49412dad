// Every command once, and what the command line promises: exit codes, what goes to which stream,
// JSON to the letter, bad input that leaves nothing behind.
#include "base/file.h"
#include "base/json.h"
#include "base/threads.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kModel = std::string(INGOT_FIXTURES) + "/models/llama";

class CommandsTest : public testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& arguments, CommandInput input = {}) {
    return work_.run(arguments, std::move(input));
  }
  // A command that must do its work.
  std::string good(const std::vector<std::string>& arguments, CommandInput input = {}) {
    const CommandResult r = run(arguments, std::move(input));
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.out;
  }
  // The one object on standard output.
  Json json(const std::vector<std::string>& arguments, CommandInput input = {}) {
    const std::string out = good(arguments, std::move(input));
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
    return parse_json(out, "standard output");
  }
  // Fails with one line on standard error and nothing on standard output.
  std::string bad(int exit_code, const std::vector<std::string>& arguments,
                  CommandInput input = {}) {
    const CommandResult r = run(arguments, std::move(input));
    EXPECT_EQ(r.exit_code, exit_code) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_THAT(r.err, StartsWith("error: ["));
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    return r.err;
  }
  std::string engine() {
    const std::string path = work_ / "model.ingot";
    good({"build", kModel, "-o", path, "--target", "cpu", "--max-batch", "2", "--workers", "2"});
    return path;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& e : fs::recursive_directory_iterator(work_.path()))
      if (e.is_regular_file()) names.push_back(e.path().filename());
    return names;
  }

  WorkFolder work_;
};

TEST_F(CommandsTest, HelpHasAnExampleForEveryCommand) {
  const std::string all = good({"--help"});
  for (const char* name : {"run", "batch", "build", "bench", "plan", "inspect", "tokenize",
                           "detokenize", "render", "logits", "perplexity", "devices"}) {
    EXPECT_THAT(all, HasSubstr(std::string("  ") + name + " "));
    EXPECT_THAT(good({name, "--help"}), HasSubstr(std::string("Example:\n  "))) << name;
  }
  EXPECT_THAT(good({"--version"}), StartsWith("ingot "));
}

TEST_F(CommandsTest, WrongUsageIsExitCodeTwo) {
  EXPECT_THAT(bad(2, {"run", kModel, "--no-such-flag"}), HasSubstr("--no-such-flag"));
  bad(2, {});
  bad(2, {"no_such_command"});
  bad(2, {"run"});
  bad(2, {"run", kModel, "-p", "a", "--top-k", "-1"});
  bad(2, {"run", kModel, "-p", "a", "--memory", "much"});
  bad(2, {"run", kModel, "-p", "a", "--device", "toaster"});
  bad(2, {"run", kModel, "-p", "a", "--deterministic", "sometimes"});
  bad(2, {"logits", kModel, "--tokens", "1,two", "-o", work_ / "x.npy"});
  bad(2, {"logits", kModel, "--tokens", "1", "--tokens-file", "f", "-o", work_ / "x.npy"});
  bad(2, {"logits", kModel, "-o", work_ / "x.npy"});
  bad(2, {"build", kModel});
  EXPECT_THAT(bad(2, {"run", kModel, "-p", "a", "--min-tokens", "10", "--max-tokens", "5"}),
              HasSubstr("--min-tokens 10: more than --max-tokens 5"));
  for (const char* steps : {"2", "5", "-1"})
    bad(2, {"logits", kModel, "--tokens", "1,2", "--steps", steps, "-o", work_ / "x.npy"});
  for (const char* ids : {"1,2,,3", ",1", "1,", "1, ,2", ","})
    bad(2, {"logits", kModel, "--tokens", ids, "-o", work_ / "x.npy"});
  for (const std::vector<std::string>& binary : std::vector<std::vector<std::string>>{
           {"build", kModel, "-o", "-"}, {"logits", kModel, "--tokens", "1", "-o", "-"}})
    EXPECT_THAT(bad(2, binary), HasSubstr("binary"));
  const std::string messages = work_.write("m.json", R"([{"role":"user","content":"Hi"}])");
  for (const char* variables : {"{", "[1]", "", "7"})
    EXPECT_THAT(bad(2, {"render", kModel, messages, "--variables", variables}),
                HasSubstr("--variables"));
  fs::remove(messages);
  bad(2, {"bench", kModel, "--prefill", "0", "--decode", "0"});
  EXPECT_EQ(files(), std::vector<std::string>());
}

TEST_F(CommandsTest, MoreThreadsThanProcessorsAreCutAndTold) {
  const int most = allowed_cpus();
  const auto run = [&](int threads) {
    return work_.run({"run", kModel, "-p", "Hi", "--max-tokens", "1", "--temperature", "0",
                      "--device", "cpu", "--threads", std::to_string(threads)});
  };
  if (most == 1024) GTEST_SKIP() << "--threads takes no more";
  const CommandResult many = run(most + 1), all = run(most);
  EXPECT_EQ(many.exit_code, 0) << many.err;
  EXPECT_EQ(many.out, all.out);
  EXPECT_THAT(many.err, HasSubstr(fmt::format("--threads {}: this process may use {} processors",
                                              most + 1, most)));
  EXPECT_THAT(all.err, testing::Not(HasSubstr("--threads")));
}

// An option's own range, and the words that were not understood in the order in which they stood.
TEST_F(CommandsTest, WrongUsageIsToldInFull) {
  EXPECT_THAT(bad(2, {"run", kModel, "--max-tokens", "99999999999999999999999"}),
              HasSubstr("--max-tokens 99999999999999999999999: wanted a whole number, 1 to "
                        "2147483647"));
  EXPECT_THAT(bad(2, {"run", kModel, "--threads", "0"}), HasSubstr("1 to 1024"));
  EXPECT_THAT(bad(2, {"bench", "offline", kModel, "more", "words"}),
              HasSubstr("not expected: more words"));
  EXPECT_THAT(bad(2, {"no_such_command", "more"}), HasSubstr("no_such_command more"));
  // What stands before a command below is neither lost nor taken for its own.
  EXPECT_THAT(bad(2, {"bench", kModel, "offline"}), HasSubstr("`ingot bench offline MODEL ...`"));
  EXPECT_THAT(bad(2, {"bench", kModel, "offline", kModel}), HasSubstr("MODEL stands before"));
  EXPECT_THAT(bad(2, {"bench", "--prefill", "4", "offline", kModel}),
              HasSubstr("--prefill stands before `offline`"));
  EXPECT_THAT(bad(2, {"run", kModel, "--temperature", "abc"}),
              HasSubstr("--temperature abc: wanted a number"));
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"plan", kModel}, {"build", kModel, "--dry-run"}}) {
    std::vector<std::string> drafted = command;
    drafted.insert(drafted.end(), {"--draft", kModel});
    EXPECT_THAT(bad(2, drafted), HasSubstr("plan the draft model"));
  }
  for (const char* command : {"inspect", "bench"})
    EXPECT_THAT(bad(2, {command, kModel, "--draft", "ngram"}), HasSubstr("draws no tokens"));
  EXPECT_THAT(bad(4, {"run", kModel, "-p", "a", "--memory", "1K"}), HasSubstr("cap is 1.0 KiB"));
}

// Defaults are told where they are not the obvious ones.
TEST_F(CommandsTest, HelpNamesDefaults) {
  const std::string bench = good({"bench", "--help"});
  for (const char* value : {"512", "64", "1", "5"})
    EXPECT_THAT(bench, HasSubstr(std::string("(default: ") + value + ")"));
  const std::string run = good({"run", "--help"});
  for (const char* part : {"generation_config.json", "0.7", "0.9", "(default: auto, bf16)",
                           "more than 8 requests run; beams"})
    EXPECT_THAT(run, HasSubstr(part));
  const std::string batch = good({"batch", "--help"});
  const std::size_t at = batch.find("  {\"id\": 1");  // the sample is a line that it takes
  ASSERT_NE(at, std::string::npos);
  const std::string line = batch.substr(at, batch.find('\n', at) - at);
  good({"batch", kModel, "-i", work_.write("in.jsonl", line), "-o", work_ / "out.jsonl"});
  const std::string render = good({"render", "--help"});
  const std::size_t from = render.find("  [{\"role\"");
  ASSERT_NE(from, std::string::npos);
  EXPECT_THAT(good({"render", kModel, work_.write("m.json", render.substr(from))}),
              HasSubstr("Name three fruits."));
}

TEST_F(CommandsTest, RunAnswersInTextAndInJson) {
  const std::vector<std::string> arguments = {
      "run", kModel, "-p", "Hello", "--max-tokens", "8", "--temperature", "0", "--ignore-eos"};
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  const Json answer = json(with_json);
  EXPECT_EQ(answer.at("token_ids").size(), 8U);
  EXPECT_EQ(answer.at("finish_reason"), "length");
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 8);
  EXPECT_EQ(answer.at("usage").at("total_tokens").get<int>(),
            answer.at("usage").at("prompt_tokens").get<int>() + 8);
  for (const char* key : {"open_s", "first_token_s", "total_s", "decode_tokens_per_s"})
    EXPECT_GT(answer.at("timing").at(key).get<double>(), 0) << key;
  const auto text = answer.at("text").get<std::string>();
  EXPECT_EQ(good(arguments), text.ends_with('\n') ? text : text + "\n");
  // Standard input is a prompt too.
  CommandInput input;
  input.standard_input = "Hello";
  with_json.erase(with_json.begin() + 2, with_json.begin() + 4);
  EXPECT_EQ(json(with_json, input).at("text"), answer.at("text"));
  input.environment = {"INGOT_CPU=generic"};
  EXPECT_THAT(json(with_json, input).at("device").get<std::string>(), HasSubstr("generic"));
}

TEST_F(CommandsTest, ASeedRepeatsAnAnswer) {
  const std::vector<std::string> arguments = {
      "run", kModel, "-p", "Hello", "--max-tokens", "12", "--temperature", "1.5", "--json"};
  const Json first = json(arguments);
  std::vector<std::string> again = arguments;
  again.insert(again.end(), {"--seed", std::to_string(first.at("seed").get<std::uint64_t>())});
  EXPECT_EQ(json(again).at("token_ids"), first.at("token_ids"));
}

// Nothing breaks the promise for speed yet, as the help says: all values give the same answer.
TEST_F(CommandsTest, DeterministicValuesGiveOneAnswer) {
  EXPECT_THAT(good({"run", "--help"}), HasSubstr("all three do what strict does"));
  std::vector<Json> answers;
  for (const char* value : {"on", "strict", "off"})
    answers.push_back(json({"run", kModel, "-p", "Hello", "--max-tokens", "6", "--seed", "4",
                            "--deterministic", value, "--json"})
                          .at("token_ids"));
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], answers[0]);
}

TEST_F(CommandsTest, AStopStringEndsTheAnswer) {
  const std::vector<std::string> arguments = {
      "run", kModel,          "-p", "Hello",        "--max-tokens",
      "16",  "--temperature", "0",  "--ignore-eos", "--json"};
  const auto text = json(arguments).at("text").get<std::string>();
  ASSERT_GT(text.size(), 3U);
  std::vector<std::string> stopped = arguments;
  const auto plain = std::find_if(text.begin() + 1, text.end(),
                                  [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  ASSERT_NE(plain, text.end()) << text;
  const std::string stop(1, *plain);
  stopped.insert(stopped.end(), {"--stop", stop});
  const Json answer = json(stopped);
  EXPECT_EQ(answer.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(answer.at("finish_reason"), "stop");
}

// The likeliest token, banned by its id and by a bias, and the text of one that a bias calls for.
TEST_F(CommandsTest, SamplingOptionsSteerTheAnswer) {
  const std::vector<std::string> arguments = {
      "run", kModel,          "-p", "Hello",        "--max-tokens",
      "4",   "--temperature", "0",  "--ignore-eos", "--json"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return json(all);
  };
  const Json plain = with({});
  const std::string first = plain.at("token_ids")[0].dump();
  EXPECT_NE(with({"--logit-bias", first + ":-100"}).at("token_ids")[0], plain.at("token_ids")[0]);
  EXPECT_EQ(with({"--logit-bias", "40:100"}).at("token_ids"), Json({40, 40, 40, 40}));
  const Json once = with({"--logit-bias", "40:100", "--no-repeat-ngram-size", "1"});
  EXPECT_EQ(once.at("token_ids")[0], 40);
  EXPECT_NE(once.at("token_ids")[1], 40);
  std::string text = with({"--logit-bias", "40:100"}).at("text");
  text.resize(text.size() / 4);  // of one of the four
  EXPECT_NE(with({"--logit-bias", "40:100", "--bad-words", text}).at("token_ids")[0], 40);
  EXPECT_EQ(with({"--logit-bias", "40:100", "--stop", text}).at("text"), "");
  EXPECT_EQ(with({"--logit-bias", "40:100", "--stop", text, "--include-stop-str"}).at("text"),
            text);
}

TEST_F(CommandsTest, BatchGivesSeveralAnswersAndLogprobsOfThePrompt) {
  const std::string lines =
      R"({"prompt":"Hello","max_tokens":4,"ignore_eos":true,"temperature":2,"seed":3,"n":3})"
      "\n"
      R"({"prompt":"Hello","max_tokens":4,"ignore_eos":true,"temperature":2,"seed":3})"
      "\n"
      R"({"prompt":"Hello","max_tokens":4,"ignore_eos":true,"temperature":2,"n":2,"best_of":4})"
      "\n"
      R"({"prompt_token_ids":[1,5,7],"max_tokens":1,"prompt_logprobs":2})"
      "\n"
      R"({"prompt":"Hello","max_tokens":4,"ignore_eos":true,"beam_width":4,"n":2})"
      "\n"
      R"({"prompt":"Hello","max_tokens":4,"ignore_eos":true,"use_beam_search":true,"best_of":4,"n":2})"
      "\n"
      R"({"prompt_token_ids":[5],"max_tokens":1,"prompt_logprobs":0})"
      "\n"
      R"({"prompt":"Hello","max_tokens":3,"ignore_eos":true,"beam_width":2,"n":2,"logprobs":1})"
      "\n";
  const std::string out = work_ / "out.jsonl";
  good({"batch", kModel, "-i", work_.write("in.jsonl", lines), "-o", out});
  std::vector<Json> answers;
  std::ifstream file(out);
  for (std::string line; std::getline(file, line);) answers.push_back(parse_json(line, "a line"));
  ASSERT_EQ(answers.size(), 8U);
  ASSERT_EQ(answers[0].at("choices").size(), 3U);
  EXPECT_EQ(answers[0].at("choices")[0].at("token_ids"), answers[0].at("token_ids"));
  EXPECT_NE(answers[0].at("choices")[1].at("token_ids"), answers[0].at("token_ids"));
  EXPECT_EQ(answers[0].at("usage").at("completion_tokens"), 12);
  // The first of several is the one that is drawn alone.
  EXPECT_EQ(answers[1].at("token_ids"), answers[0].at("token_ids"));
  EXPECT_FALSE(answers[1].contains("choices"));
  ASSERT_EQ(answers[2].at("choices").size(), 2U);
  EXPECT_EQ(answers[2].at("choices")[1].at("token_ids").size(), 4U);
  const Json& prompt = answers[3].at("prompt_logprobs");
  ASSERT_EQ(prompt.size(), 3U);
  EXPECT_TRUE(prompt[0].is_null());
  EXPECT_EQ(prompt[1].at("id"), 5);
  EXPECT_EQ(prompt[2].at("id"), 7);
  EXPECT_EQ(prompt[2].at("top").size(), 2U);
  // Beams, by either name: different ones, whatever the model's defaults say of draws.
  ASSERT_EQ(answers[4].at("choices").size(), 2U);
  EXPECT_NE(answers[4].at("choices")[0].at("token_ids"),
            answers[4].at("choices")[1].at("token_ids"));
  EXPECT_EQ(answers[5].at("choices"), answers[4].at("choices"));
  // Nothing came before the only token.
  EXPECT_EQ(answers[6].at("prompt_logprobs"), Json::parse("[null]"));
  EXPECT_FALSE(answers[1].contains("prompt_logprobs"));
  for (const Json& beam : answers[7].at("choices")) {
    ASSERT_EQ(beam.at("logprobs").size(), 3U);
    EXPECT_EQ(beam.at("logprobs")[2].at("id"), beam.at("token_ids")[2]);
    EXPECT_EQ(beam.at("logprobs")[0].at("top").size(), 1U);
  }
}

// Logprobs are of the raw softmax whatever the parameters do to the logits, and always JSON.
TEST_F(CommandsTest, LogprobsAreOfTheModelAndNotOfTheParameters) {
  const std::string body = R"({"prompt":"Hello","max_tokens":1,"ignore_eos":true,"logprobs":3)";
  const std::vector<std::string> more = {R"(,"temperature":0)",
                                         R"(,"temperature":0.01)",
                                         R"(,"top_k":1)",
                                         R"(,"temperature":0,"logit_bias":{"40":100})",
                                         R"(,"temperature":0,"bad_token_ids":[[40]])",
                                         R"(,"temperature":1e6,"min_tokens":1,"seed":5)"};
  std::string lines;
  for (const std::string& parameters : more) lines += body + parameters + "}\n";
  const std::string out = work_ / "out.jsonl";
  good({"batch", kModel, "-i", work_.write("in.jsonl", lines), "-o", out});
  std::vector<Json> answers;
  std::ifstream file(out);
  for (std::string line; std::getline(file, line);) answers.push_back(parse_json(line, "a line"));
  ASSERT_EQ(answers.size(), more.size());
  for (const Json& answer : answers) {
    EXPECT_EQ(answer.at("logprobs")[0].at("top"), answers[0].at("logprobs")[0].at("top"));
    EXPECT_TRUE(answer.at("logprobs")[0].at("logprob").is_number());
    EXPECT_TRUE(answer.at("seed").is_number_unsigned());
  }
  EXPECT_EQ(answers[3].at("token_ids"), Json({40}));
  EXPECT_LT(answers[3].at("logprobs")[0].at("logprob").get<double>(),
            answers[0].at("logprobs")[0].at("logprob").get<double>());
}

TEST_F(CommandsTest, TokenizeAndDetokenizeAreInverse) {
  CommandInput input;
  input.standard_input = "Hello, wörld!\n  two  lines \xF0\x9F\x99\x82\n";
  const std::string ids = good({"tokenize", kModel, "--no-special"}, input);
  const Json as_json = json({"tokenize", kModel, "--no-special", "--json"}, input);
  std::string joined;
  for (const Json& id : as_json.at("token_ids")) joined += (joined.empty() ? "" : " ") + id.dump();
  EXPECT_EQ(ids, joined + "\n");
  CommandInput back;
  back.standard_input = ids;
  EXPECT_EQ(good({"detokenize", kModel}, back), input.standard_input);
  back.standard_input = "5 99999";
  EXPECT_THAT(bad(1, {"detokenize", kModel}, back), HasSubstr("token 99999 is outside"));
}

TEST_F(CommandsTest, RenderGivesTheTemplatesText) {
  const std::string messages = work_.write("messages.json", R"([{"role":"user","content":"Hi"}])");
  const std::string text = good({"render", kModel, messages});
  EXPECT_THAT(text, HasSubstr("Hi"));
  EXPECT_EQ(json({"render", kModel, messages, "--json"}).at("text"), text);
  EXPECT_THAT(bad(3, {"render", kModel, work_.write("bad.json", "{")}), HasSubstr("bad.json"));
}

TEST_F(CommandsTest, BatchTakesThreeShapesAndTellsErrorsByLine) {
  const std::string in = work_.write(
      "in.jsonl",
      R"({"custom_id":"a","body":{"prompt":"Hello","max_tokens":4,"temperature":0,"ignore_eos":true}})"
      "\n"
      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,"temperature":0,"id":"b"})"
      "\n\n"
      R"({"prompt_token_ids":[1,5,7],"max_tokens":4,"temperature":0,"ignore_eos":true,"logprobs":2})"
      "\n"
      R"({"prompt":"x","no_such_field":1,"id":"c"})"
      "\nnot json\n"
      R"({"prompt_token_ids":[1,99999999]})"
      "\n");
  const std::string out = work_ / "out.jsonl";
  const CommandResult r = run({"batch", kModel, "-i", in, "-o", out, "--max-batch", "3"});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_THAT(r.err, HasSubstr("3 of 6"));
  std::vector<Json> lines;
  std::ifstream file(out);
  for (std::string line; std::getline(file, line);) lines.push_back(parse_json(line, "a line"));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0].at("id"), "a");
  EXPECT_EQ(lines[0].at("token_ids").size(), 4U);
  EXPECT_EQ(lines[1].at("id"), "b");
  EXPECT_TRUE(lines[1].contains("text"));
  EXPECT_EQ(lines[2].at("id"), 4);  // the line's number
  EXPECT_EQ(lines[2].at("logprobs").size(), 4U);
  EXPECT_EQ(lines[2].at("logprobs")[0].at("top").size(), 2U);
  EXPECT_EQ(lines[3].at("id"), "c");
  EXPECT_THAT(lines[3].at("error").at("message").get<std::string>(), HasSubstr("no_such_field"));
  EXPECT_TRUE(lines[4].contains("error"));
  EXPECT_TRUE(lines[5].contains("error"));
  // Alone, the same tokens.
  const Json alone = json({"run", kModel, "-p", "Hello", "--max-tokens", "4", "--temperature", "0",
                           "--ignore-eos", "--json", "--max-batch", "3"});
  EXPECT_EQ(alone.at("token_ids"), lines[0].at("token_ids"));
}

TEST_F(CommandsTest, PerplexityCountsEachTokenOnce) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "The quick brown fox jumps over the lazy dog. ";
  const std::string file = work_.write("text.txt", text);
  CommandInput input;
  input.standard_input = text;
  const std::int64_t count = json({"tokenize", kModel, "--json"}, input).at("count");
  for (const auto& [window, stride] :
       std::vector<std::pair<const char*, const char*>>{{"32", "16"}, {"50", "7"}, {"64", "63"}}) {
    const Json r =
        json({"perplexity", kModel, file, "--window", window, "--stride", stride, "--json"});
    EXPECT_EQ(r.at("tokens"), count - 1);
    EXPECT_NEAR(r.at("perplexity").get<double>(), std::exp(r.at("mean_nll").get<double>()), 1e-6);
  }
  bad(2, {"perplexity", kModel, file, "--window", "16", "--stride", "16"});
}

TEST_F(CommandsTest, PlanSaysWhatFitsAndBuildRefusesWhatDoesNot) {
  const Json plan = json({"plan", kModel, "--device", "cpu", "--memory", "1G", "--json"});
  const Json& memory = plan.at("memory");
  EXPECT_EQ(
      memory.at("total").get<std::uint64_t>(),
      memory.at("weights").get<std::uint64_t>() + memory.at("activations").get<std::uint64_t>() +
          memory.at("workspace").get<std::uint64_t>() + memory.at("kv_pool").get<std::uint64_t>() +
          memory.at("process").get<std::uint64_t>());
  EXPECT_GE(plan.at("largest_batch").get<int>(), 1);
  EXPECT_EQ(plan.at("largest_seq"), plan.at("max_seq"));
  const std::string out = work_ / "too_large.ingot";
  const CommandResult r = run({"build", kModel, "-o", out, "--memory", "1M"});
  EXPECT_EQ(r.exit_code, 4);
  EXPECT_THAT(r.err, HasSubstr("[memory]"));
  EXPECT_FALSE(fs::exists(out));
  EXPECT_THAT(good({"build", kModel, "--dry-run"}), HasSubstr("weights"));
}

// Before anything is asked of the model: here there is none.
TEST_F(CommandsTest, APlaceThatCannotBeWrittenIsToldBeforeAnyWork) {
  const std::string absent = work_ / "absent.gguf";
  for (const std::string& out : {(work_ / "no" / "x.ingot").string(), work_.path().string()})
    EXPECT_THAT(bad(6, {"build", absent, "-o", out}),
                testing::AllOf(HasSubstr(out), testing::Not(HasSubstr("absent.gguf"))));
  EXPECT_THAT(bad(6, {"build", absent, "-o", work_ / "x.ingot"}), HasSubstr("absent.gguf"));
  EXPECT_THAT(files(), testing::IsEmpty());
}

// The cache's type and its bytes, before a build and of an engine.
TEST_F(CommandsTest, TheKvCacheIsWhatTheOptionSays) {
  const Json info = json({"inspect", kModel, "--device", "cpu", "--plan", "--json"});
  const Json& state = info.at("plan").at("states").at(0).at("spec");
  const auto layers = info.at("plan").at("states").size();
  const auto rows = 2 * state.at("kv_heads").get<std::size_t>() * layers;  // K and V of a token
  const auto dim = state.at("head_dim").get<std::size_t>();
  for (const auto& [option, name, row] : {std::tuple("auto", "bf16", 2 * dim),
                                          {"bf16", "bf16", 2 * dim},
                                          {"int8", "int8", dim + 4},
                                          {"fp8", "fp8", dim + 4}}) {
    const Json plan = json({"plan", kModel, "--device", "cpu", "--kv-cache", option, "--json"});
    EXPECT_EQ(plan.at("kv_cache"), name);
    EXPECT_EQ(plan.at("kv_bytes_per_token"), rows * row);
    const std::string path = work_ / (std::string(option) + ".ingot");
    good({"build", kModel, "-o", path, "--target", "cpu", "--kv-cache", option});
    EXPECT_EQ(json({"inspect", path, "--json"}).at("kv_cache"), name);
    EXPECT_THAT(good({"inspect", path}), HasSubstr(std::string("KV cache     ") + name + "\n"));
    EXPECT_THAT(good({"plan", path}), HasSubstr(std::string("KV cache: ") + name + ", "));
    const std::vector<std::string> run = {"run",           path, "-p", "Hello", "--max-tokens", "4",
                                          "--temperature", "0"};
    EXPECT_EQ(good(run), good(run));
  }
}

TEST_F(CommandsTest, WindowsAndSinksAreWhatTheOptionsSay) {
  const std::string path = work_ / "sinks.ingot";
  const std::vector<std::string> flags = {"--attention-window", "5", "--sink-tokens", "2"};
  const auto with_flags = [&](std::vector<std::string> command) {
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  };
  good(with_flags({"build", kModel, "-o", path, "--target", "cpu"}));
  EXPECT_EQ(json({"inspect", path, "--json"}).at("attention_window"), 5);
  EXPECT_EQ(json({"inspect", path, "--json"}).at("sink_tokens"), 2);
  EXPECT_EQ(json({"inspect", kModel, "--device", "cpu", "--json"}).at("attention_window"), 0);
  EXPECT_THAT(good({"inspect", path}), HasSubstr("the last 5 tokens, and the first 2\n"));
  const std::vector<std::string> run = {
      "run", "-p", "Hello world, hello", "--temperature", "0", "--max-tokens", "8"};
  const auto of = [&](const std::string& model) {
    std::vector<std::string> command = run;
    command.insert(command.begin() + 1, model);
    return command;
  };
  EXPECT_EQ(good(of(path)), good(with_flags(of(kModel))));
  EXPECT_NE(good(of(path)), good(of(kModel)));
  EXPECT_EQ(good(with_flags(of(path))), good(of(path))) << "what it was built with";
  EXPECT_THAT(bad(2, {"run", path, "-p", "a", "--attention-window", "6"}),
              HasSubstr("built with a window of 5"));
  EXPECT_THAT(bad(2, {"run", path, "-p", "a", "--sink-tokens", "3"}),
              HasSubstr("built with 2 sink tokens"));
  EXPECT_THAT(bad(2, {"run", kModel, "-p", "a", "--sink-tokens", "3"}),
              HasSubstr("attention_window"));
  bad(2, {"run", kModel, "-p", "a", "--attention-window", "0"});
  good({"run", kModel, "-p", "", "--max-tokens", "1", "--sink-tokens", "0"});
}

TEST_F(CommandsTest, InspectShowsWhatAnEngineHolds) {
  const std::string path = engine();
  const Json all = json({"inspect", path, "--weights", "--plan", "--passes", "--verify", "--json"});
  EXPECT_EQ(all.at("info").at("max_batch"), 2);
  EXPECT_EQ(all.at("verified"), true);
  EXPECT_GT(all.at("weights").size(), 5U);
  EXPECT_GT(all.at("passes").size(), 3U);
  EXPECT_THAT(good({"inspect", path, "--dot"}), HasSubstr("digraph"));
  EXPECT_EQ(good({"inspect", path, "--graph"}),
            good({"inspect", kModel, "--graph", "--device", "cpu", "--max-batch", "2"}));
  EXPECT_THAT(good({"inspect", kModel, "--passes"}), HasSubstr("nodes"));
  bad(2, {"inspect", kModel, "--verify"});
  EXPECT_THAT(bad(2, {"inspect", path, "--dot", "--plan"}), HasSubstr("--dot"));
  EXPECT_THAT(good({"inspect", path, "--plan"}), StartsWith("# kernels as built\n"));
  EXPECT_THAT(good({"inspect", kModel, "--plan"}), testing::Not(HasSubstr("as built")));
}

TEST_F(CommandsTest, AnEngineKeepsWhatItWasBuiltWith) {
  const std::string path = engine();
  EXPECT_THAT(good({"run", path, "-p", "Hello", "--max-tokens", "2"}), HasSubstr("\n"));
  bad(2, {"run", path, "-p", "Hello", "--max-batch", "3"});
  bad(2, {"run", path, "-p", "Hello", "--quant", "int8"});
  bad(2, {"logits", path, "--tokens", "1", "--compute", "f32", "-o", work_ / "x.npy"});
  for (const char* command : {"plan", "inspect"}) {
    good({command, path, "--max-batch", "2"});
    bad(2, {command, path, "--max-batch", "3"});
    bad(2, {command, path, "--max-seq", "17"});
    bad(2, {command, path, "--quant", "frob"});
    EXPECT_THAT(bad(2, {command, path, "--kv-cache", "int8"}),
                HasSubstr("built with a KV cache in bf16"));
    bad(2, {command, path, "--skip-pass", "merge_linears"});
  }
  bad(2, {"plan", path, "--target", "sm_90a"});
  EXPECT_THAT(bad(2, {"build", path, "--dry-run"}), HasSubstr("is an engine already"));
  EXPECT_THAT(bad(2, {"build", path, "-o", work_ / "x.ingot"}), HasSubstr("is an engine already"));
}

// A checkpoint's own blocks are kept; a format that nothing takes is refused or told all the same.
TEST_F(CommandsTest, QuantIsNeverIgnoredInSilence) {
  const std::string gguf = std::string(INGOT_FIXTURES) + "/gguf/llama_q8_0.gguf";
  const std::vector<std::string> dry = {"build", gguf, "--device", "cpu", "--dry-run", "--quant"};
  const auto with = [&](const char* quant) {
    std::vector<std::string> arguments = dry;
    arguments.emplace_back(quant);
    return arguments;
  };
  EXPECT_THAT(bad(2, with("frob")), HasSubstr("frob"));
  EXPECT_THAT(bad(2, with("q6_k")), HasSubstr("q6_k"));
  const auto told = [&](const CommandResult& r) {
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.err;
  };
  EXPECT_THAT(told(run(with("int8"))), testing::ContainsRegex("^note: .*int8.* in q8_0\n$"));
  EXPECT_EQ(told(run(with("none"))), "");
  EXPECT_EQ(told(run({"build", kModel, "--device", "cpu", "--dry-run", "--quant", "int8"})), "");
}

TEST_F(CommandsTest, BenchMeasuresRandomWeights) {
  const Json r =
      json({"bench", kModel + "/config.json", "--random-weights", "--prefill", "32", "--decode",
            "4", "--batch", "2", "--repeat", "2", "--threads", "1", "--json"});
  for (const char* key :
       {"prefill_tokens_per_s", "decode_tokens_per_s", "first_token_s", "step_ms"})
    EXPECT_GT(r.at(key).get<double>(), 0) << key;
  const Json& limit = r.at("limit");
  EXPECT_THAT(limit.at("bound"), testing::AnyOf("memory", "compute"));
  EXPECT_NEAR(limit.at("fraction").get<double>(),
              limit.at("achieved").get<double>() / limit.at("peak").get<double>(), 1e-9);
}

TEST_F(CommandsTest, DevicesSaysWhichIsUsed) {
  const Json r = json({"devices", "--json"});
  int chosen = 0;
  for (const Json& d : r.at("devices")) chosen += d.at("chosen").get<bool>();
  EXPECT_EQ(chosen, 1);
  CommandInput capped;
  capped.environment = {"INGOT_CPU=generic"};
  EXPECT_EQ(json({"devices", "--json"}, capped).at("cpu").at("tier"), "generic");
  EXPECT_THAT(good({"devices"}), HasSubstr("cpu"));
}

TEST_F(CommandsTest, DamagedEnginesAreRefused) {
  const std::string path = engine();
  const std::string whole = read_file(path);
  const std::string torn = work_.write("torn.ingot", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(bad(3, {"run", torn, "-p", "a"}), HasSubstr("torn.ingot"));
  for (const std::string& start : {std::string(), std::string("I"), whole.substr(0, 40)})
    for (const char* command : {"plan", "inspect", "run"})
      EXPECT_THAT(bad(3, {command, work_.write("short.ingot", start)}), HasSubstr("torn"));
  for (const std::size_t at : {std::size_t{20}, whole.size() - 10}) {  // header, tables
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    bad(3, {"run", work_.write("flipped.ingot", flipped), "-p", "a"});
  }
  std::string flipped = whole;  // a weight: found by --verify
  flipped[70000] = static_cast<char>(flipped[70000] ^ 1);
  const std::string damaged = work_.write("flipped.ingot", flipped);
  bad(3, {"inspect", damaged, "--verify"});
  // No command vouches for what it computed with it.
  const std::string out = work_ / "out";
  bad(3, {"logits", damaged, "--tokens", "1", "-o", out});
  bad(3, {"perplexity", damaged, work_.write("text", "Hello, hello")});
  bad(3, {"batch", damaged, "-o", out, "-i",
          work_.write("in", R"({"prompt_token_ids":[1,5],"max_tokens":1})")});
  EXPECT_FALSE(fs::exists(out));
  bad(3, {"run", damaged, "-p", "a", "--max-tokens", "1", "--json"});
  const CommandResult streamed = run({"run", damaged, "-p", "a", "--max-tokens", "1"});
  EXPECT_EQ(streamed.exit_code, 3);
  EXPECT_THAT(streamed.err, HasSubstr("weights is damaged"));
}

// The loader tells what it is asked for, there or not: only who reports or compiles asks for NVRTC.
TEST_F(CommandsTest, WithoutAGpuNothingAsksForNvrtc) {
  const auto asked = [&](const std::string& name, const std::vector<std::string>& arguments) {
    const fs::path trace = work_ / name;
    CommandInput input;
    input.environment = {"LD_DEBUG=files", "LD_DEBUG_OUTPUT=" + trace.string()};
    good(arguments, input);
    std::string text;
    for (const auto& entry : fs::directory_iterator(work_.path()))
      if (entry.path().filename().string().starts_with(name + ".")) text += read_file(entry.path());
    EXPECT_THAT(text, HasSubstr("libc.so.6"));
    return text.find("libnvrtc") != std::string::npos;
  };
  const Json devices = json({"devices", "--json"});
  if (devices.at("cuda").contains("nvrtc")) {
    EXPECT_TRUE(asked("devices", {"devices", "--json"}));
  }
  if (devices.at("devices").back().at("chosen") != true) GTEST_SKIP() << "a GPU is here";
  EXPECT_FALSE(asked("run", {"run", kModel, "-p", "a", "--max-tokens", "1"}));
}

// Whatever name it goes by: what a command reads is never what it writes.
TEST_F(CommandsTest, AnOutputThatIsAnInputIsRefused) {
  const fs::path folder = work_ / "model";
  fs::copy(kModel, folder);
  const std::string weights = folder / "model.safetensors";
  const std::string whole = read_file(weights);
  fs::create_symlink(weights, work_ / "link");
  fs::create_hard_link(weights, work_ / "same");
  for (const std::string& out : {weights, (folder / "../model/model.safetensors").string(),
                                 (work_ / "link").string(), (work_ / "same").string()}) {
    EXPECT_THAT(bad(2, {"build", folder, "-o", out}), HasSubstr("model.safetensors"));
    bad(2, {"logits", folder, "--tokens", "1", "-o", out});
  }
  const std::string path = engine();
  bad(2, {"logits", path, "--tokens", "1", "-o", path});
  const std::string ids = work_.write("ids", "1,2");
  bad(2, {"logits", path, "--tokens-file", ids, "-o", ids});
  const std::string line = R"({"prompt_token_ids":[1,5],"max_tokens":1})";
  const std::string lines = work_.write("lines", line);
  bad(2, {"batch", path, "-i", lines, "-o", lines});
  bad(2, {"batch", path, "-i", lines, "-o", path});
  EXPECT_EQ(read_file(weights), whole);
  EXPECT_EQ(read_file(ids), "1,2");
  EXPECT_EQ(read_file(lines), line);
  // Another file of the folder is no part of the checkpoint, and may be replaced again and again.
  for (int i = 0; i < 2; ++i) good({"logits", folder, "--tokens", "1", "-o", folder / "out.npy"});
  EXPECT_EQ(std::distance(fs::directory_iterator(work_ / "cache/engines"), {}), 1);
}

TEST_F(CommandsTest, WhatTheSystemRefusesIsExitCodeSix) {
  EXPECT_THAT(bad(6, {"run", work_ / "nowhere", "-p", "a"}), HasSubstr("nowhere"));
  bad(6, {"perplexity", kModel, work_ / "nowhere"});
  const std::string lines = work_.write("in.jsonl", R"({"prompt":"a","max_tokens":1})");
  EXPECT_THAT(bad(6, {"batch", kModel, "-i", lines, "-o", work_ / "no_folder" / "o.jsonl"}),
              HasSubstr("no_folder"));
  EXPECT_EQ(files(), std::vector<std::string>{"in.jsonl"});  // no model was built for nothing
  bad(6, {"logits", kModel, "--tokens", "1,2", "-o", "/dev/full"});
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  bad(6, {"logits", kModel, "--tokens", "1,2", "-o", work_ / "no_folder" / "x.npy"});
  CommandInput full;
  full.standard_output = "/dev/full";
  const CommandResult r = run({"run", kModel, "-p", "a", "--max-tokens", "2"}, full);
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_THAT(r.err, HasSubstr("No space left on device"));
  // A cache that cannot be written: its place is a file, which stops root too.
  CommandInput no_cache;
  no_cache.environment = {"INGOT_CACHE=" + work_.write("file", "x") + "/cache"};
  EXPECT_THAT(bad(6, {"run", kModel, "-p", "a"}, no_cache), HasSubstr("INGOT_CACHE"));
}

TEST_F(CommandsTest, ARefusedRequestIsExitCodeOne) {
  bad(1, {"logits", kModel, "--tokens", "1,99999999", "-o", work_ / "x.npy"});
  EXPECT_FALSE(fs::exists(work_ / "x.npy"));
}

}  // namespace
}  // namespace ingot
