// What does not fit is refused with its numbers, and what the refusal names instead really starts.
#include "base/file.h"
#include "base/json.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/cli/command.h"
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kLongest = 32768;

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    checkpoint_.config()["max_position_embeddings"] = kLongest;
    model_ = checkpoint_.save();
  }
  using Words = std::vector<std::string>;
  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json plan(const Words& more) {
    const CommandResult r = work_.run(joined({"plan", model_, "--target", "cpu", "--json"}, more));
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return parse_json(r.out, "the plan");
  }
  std::string refusal(const Words& words) {
    const CommandResult r = work_.run(words);
    EXPECT_EQ(r.exit_code, 4) << r.err;
    EXPECT_THAT(r.err, HasSubstr("[memory]"));
    for (const char* part : {"weights ", "activations ", "workspace ", "process ", "the cap is "})
      EXPECT_THAT(r.err, HasSubstr(part));
    return r.err;
  }
  // What a refusal says behind this option; "": it does not name it.
  static std::string named(const std::string& refusal, const std::string& option) {
    std::smatch found;
    const std::string behind = refusal.substr(refusal.find("It would start with"));
    const std::regex pattern(option + " ([0-9]+M?)");
    return std::regex_search(behind, found, pattern) ? found[1].str() : "";
  }
  // Builds with these options, and the engine answers under the cap that it was built for.
  void expect_starts(const Words& options, const std::string& memory) {
    const std::string engine = work_ / "model.ingot";
    const CommandResult built = work_.run(
        joined({"build", model_, "-o", engine, "--target", "cpu", "--memory", memory}, options));
    ASSERT_EQ(built.exit_code, 0) << built.err;
    const CommandResult ran =
        work_.run({"run", engine, "-p", "Hello", "--max-tokens", "2", "--memory", memory});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
  }
  static std::uint64_t number(const Json& plan, const char* row) {
    return plan.at("memory").at(row).get<std::uint64_t>();
  }
  static std::uint64_t without_pool(const Json& plan) {
    return number(plan, "total") - number(plan, "kv_pool");
  }

  test::EditedCheckpoint checkpoint_{fs::path(INGOT_FIXTURES) / "models" / "llama"};
  std::string model_;
  WorkFolder work_;
};

TEST_F(MemoryTest, ARefusedBuildNamesALengthThatStarts) {
  const Words profile = {"--max-batch", "4", "--max-seq", std::to_string(kLongest)};
  const Json whole = plan(profile);
  const auto token = whole.at("kv_bytes_per_token").get<std::uint64_t>();
  const std::string cap = std::to_string(without_pool(whole) + token * kLongest / 2);
  const Words build =
      joined({"build", model_, "-o", work_ / "refused.ingot", "--target", "cpu", "--memory", cap},
             profile);
  const std::string told = refusal(build);
  const std::string length = named(told, "--max-seq");
  EXPECT_EQ(length, std::to_string(kLongest / 2));
  EXPECT_FALSE(fs::exists(work_ / "refused.ingot"));
  expect_starts({"--max-batch", "4", "--max-seq", length}, cap);
  expect_starts(profile, named(told, "--memory"));
  const CommandResult r =
      work_.run(joined({"plan", model_, "--target", "cpu", "--memory", cap}, profile));
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_THAT(r.out, HasSubstr("it does not start; it would with --max-seq " + length));
}

// The profile that is asked for is the one that counts, not a smaller one that happens to fit.
TEST_F(MemoryTest, ARefusedBuildNamesABatchThatStarts) {
  const auto profile = [](std::int64_t batch) {
    return Words{"--max-batch", std::to_string(batch), "--max-seq", "64"};
  };
  const Json large = plan(profile(1024)), small = plan(profile(1));
  ASSERT_LT(without_pool(small) + (1 << 20), without_pool(large));
  const std::string cap = std::to_string((without_pool(small) + without_pool(large)) / 2);
  const std::string told = refusal(joined(
      {"build", model_, "--dry-run", "--target", "cpu", "--json", "--memory", cap}, profile(1024)));
  EXPECT_EQ(named(told, "--max-seq"), "");
  const std::string batch = named(told, "--max-batch");
  ASSERT_NE(batch, "");
  expect_starts(profile(std::stoll(batch)), cap);
  EXPECT_EQ(work_
                .run(joined({"build", model_, "--dry-run", "--target", "cpu", "--memory", cap},
                            profile(std::stoll(batch) + 1)))
                .exit_code,
            4)
      << "the nearest is the largest";
  expect_starts(profile(1024), named(told, "--memory"));
}

TEST_F(MemoryTest, ARefusedRunNamesTheMemoryThatIsEnough) {
  const Words run = {"run", model_, "-p", "Hello", "--max-tokens", "2", "--memory"};
  const std::string least = named(refusal(joined(run, {"20M"})), "--memory");
  const CommandResult enough = work_.run(joined(run, {least}));
  EXPECT_EQ(enough.exit_code, 0) << enough.err;
  const std::string less = std::to_string(std::stoll(least) - 1) + "M";
  EXPECT_EQ(named(refusal(joined(run, {less})), "--memory"), least);
  // Of an engine nothing else can change.
  const std::string engine = work_ / "model.ingot";
  ASSERT_EQ(work_.run({"build", model_, "-o", engine, "--target", "cpu"}).exit_code, 0);
  EXPECT_THAT(refusal({"run", engine, "-p", "Hello", "--memory", "20M"}),
              HasSubstr("It would start with --memory "));
}

// Host memory for pages counts under the cap on the CPU: less of it is the nearest remedy.
TEST_F(MemoryTest, ARefusedRunNamesTheHostMemoryThatStarts) {
  const std::string requests = work_.write("none.jsonl", "");
  const auto batch = [&](const Words& more) {
    return joined({"batch", model_, "--in", requests, "--out", work_ / "answers.jsonl", "--device",
                   "cpu", "--max-batch", "1", "--max-seq", "64"},
                  more);
  };
  const std::string told = refusal(batch({"--memory", "100M", "--host-memory", "300M"}));
  const std::string less = named(told, "--host-memory");
  ASSERT_NE(less, "");
  const CommandResult starts = work_.run(batch({"--memory", "100M", "--host-memory", less}));
  EXPECT_EQ(starts.exit_code, 0) << starts.err;
  const std::string more = named(told, "--memory");
  EXPECT_NE(more, "");
  // No advice that this machine cannot follow.
  const std::string huge = refusal(batch({"--host-memory", "9000000G"}));
  EXPECT_THAT(huge.substr(huge.find("It would")), testing::Not(HasSubstr("--memory ")));
  EXPECT_NE(named(huge, "--host-memory"), "");
}

// Where no whole sequence fits, what was asked for is refused and what was not is told, by every
// command alike.
TEST_F(MemoryTest, AShorterContextIsNeverSilent) {
  constexpr std::int64_t kDefault = 8192, kHolds = 1024;
  const Json whole = plan({});
  EXPECT_EQ(whole.at("max_seq"), kDefault);
  const std::string cap = std::to_string(
      without_pool(whole) + whole.at("kv_bytes_per_token").get<std::uint64_t>() * kHolds);
  const Words capped = {"--memory", cap};
  const std::string told = "the context is 1024 tokens and not 8192";
  const std::string in = work_.write("in.jsonl", "{\"prompt\":\"Hello\",\"max_tokens\":2}\n");
  const Words run = joined({"run", model_, "-p", "Hello", "--max-tokens", "2"}, capped);
  for (const Words& command :
       {run, joined({"batch", model_, "-i", in, "-o", work_ / "out.jsonl"}, capped),
        joined({"bench", model_, "--prefill", "8", "--decode", "2", "--repeat", "1"}, capped),
        joined({"logits", model_, "--tokens", "1,2", "-o", work_ / "x.npy"}, capped)}) {
    const CommandResult shorter = work_.run(command);
    EXPECT_EQ(shorter.exit_code, 0) << shorter.err;
    EXPECT_THAT(shorter.err, HasSubstr(told)) << command[0];
    const std::string refused = refusal(joined(command, {"--max-seq", "8192"}));
    for (const Words& way : {Words{"--max-seq", named(refused, "--max-seq")},
                             Words{"--max-seq", "8192", "--memory", named(refused, "--memory")}}) {
      Words again = command;
      if (way.size() > 2) again.resize(again.size() - capped.size());
      const CommandResult whole_one = work_.run(joined(again, way));
      EXPECT_EQ(whole_one.exit_code, 0) << whole_one.err;
      EXPECT_THAT(whole_one.err, testing::Not(HasSubstr("the context is"))) << command[0];
    }
  }
  const Json planned = plan(capped);
  EXPECT_EQ(planned.at("starts"), true);
  EXPECT_EQ(planned.at("largest_seq"), kHolds);
  EXPECT_EQ(plan(joined(capped, {"--max-seq", "8192"})).at("starts"), false);
  EXPECT_THAT(work_.run(joined({"plan", model_}, capped)).out,
              HasSubstr("a context of 1024 tokens and not 8192"));
  CommandInput text;
  text.standard_input.assign(2000, '7');
  const CommandResult longer = work_.run(joined({"run", model_}, capped), text);
  EXPECT_EQ(longer.exit_code, 1);
  EXPECT_THAT(longer.err, HasSubstr("the KV cache holds 1024; shorten it, or raise --memory"));
  EXPECT_EQ(work_.run(joined({"bench", model_, "--prefill", "2000"}, capped)).exit_code, 2);
}

// Pages of what no layer sees any more are neither planned nor taken.
TEST_F(MemoryTest, AWindowTakesTheMemoryOfWhatItSees) {
  const auto windowed = [](const char* tokens) {
    return Words{"--attention-window", "64", "--sink-tokens", "4",
                 "--max-batch",        "2",  "--max-seq",     tokens};
  };
  const Json shorter = plan(windowed("8192")), longer = plan(windowed("32768"));
  EXPECT_EQ(number(shorter, "kv_pool"), number(longer, "kv_pool"));
  EXPECT_LT(number(longer, "kv_pool"),
            longer.at("kv_bytes_per_token").get<std::uint64_t>() * 2 * 8192 / 4);
  const std::string total = std::to_string(number(longer, "total"));
  const Json fits = plan(joined(windowed("32768"), {"--memory", total}));
  EXPECT_EQ(fits.at("largest_seq"), kLongest);
  EXPECT_GE(fits.at("largest_batch"), 2);
  const std::string in = work_.write(
      "in.jsonl", "{\"prompt\":\"Hello\",\"max_tokens\":700,\"ignore_eos\":true,\"n\":2}\n");
  const CommandResult ran =
      work_.run(joined({"batch", model_, "-i", in, "-o", work_ / "out.jsonl", "--memory", total},
                       windowed("32768")));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const Json answer = parse_json(read_file(work_ / "out.jsonl"), "the answer");
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 1400);
}

// Positions times vocabulary would be 600 MB: the head runs in slices, and nothing is kept of them
// but what was asked for.
TEST_F(MemoryTest, LogprobsOfALongPromptStayWithinThePlan) {
  constexpr std::int64_t kVocab = 150000, kContext = 1024, kHidden = 64;
  checkpoint_.config()["vocab_size"] = kVocab;
  checkpoint_.config()["max_position_embeddings"] = kContext;
  checkpoint_.config()["tie_word_embeddings"] = true;
  checkpoint_.tensors.erase("lm_head.weight");
  {
    test::StoredTensor& table = checkpoint_.tensors.at("model.embed_tokens.weight");
    std::vector<float> values = table.as_floats();
    values.resize(kVocab * kHidden);
    for (std::size_t i = 320 * kHidden; i < values.size(); ++i)
      values[i] = static_cast<float>(i % 97) / 1000;
    table = test::StoredTensor::floats({kVocab, kHidden}, values);
  }
  checkpoint_.save();
  checkpoint_.tensors.clear();
  const std::string engine = work_ / "model.ingot";
  ASSERT_EQ(
      work_.run({"build", model_, "-o", engine, "--target", "cpu", "--max-batch", "2"}).exit_code,
      0);
  const CommandResult planned = work_.run({"plan", engine, "--json"});
  const auto total = number(parse_json(planned.out, "the plan"), "total");
  ASSERT_LT(total, std::uint64_t{300} << 20);
  Json line = {{"max_tokens", 2}, {"prompt_logprobs", 20}, {"logprobs", 20}};
  for (std::int64_t i = 0; i < kContext - 4; ++i)
    line["prompt_token_ids"].push_back(i * 7 % kVocab);
  const CommandResult ran =
      work_.run({"batch", engine, "-i", work_.write("in.jsonl", line.dump() + "\n"), "-o",
                 work_ / "out.jsonl", "--memory", std::to_string(total)});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  // The system counts what this process held when it forked as the command's, some tens of MB.
  EXPECT_LE(ran.peak_resident, total + (64 << 20));
  const Json answer = parse_json(read_file(work_ / "out.jsonl"), "the answer");
  ASSERT_EQ(answer.at("prompt_logprobs").size(), static_cast<std::size_t>(kContext - 4));
  EXPECT_EQ(answer.at("prompt_logprobs")[kContext - 5].at("top").size(), 20U);
}

// What a line keeps until it is written is bounded, alone and for all lines together, and its JSON
// is never held as a whole.
TEST_F(MemoryTest, LogprobsOfManyLinesStayWithinThePlan) {
  const auto line = [](int answers) {
    return fmt::format(
        R"({{"prompt":"Hello","max_tokens":1500,"ignore_eos":true,"logprobs":250,"n":{}}})"
        "\n",
        answers);
  };
  const auto total = number(plan({"--max-seq", "2048"}), "total");
  const std::string in = work_.write("in.jsonl", line(1) + line(3) + line(1) + line(1));
  const CommandResult ran = work_.run({"batch", model_, "-i", in, "-o", work_ / "out.jsonl",
                                       "--max-seq", "2048", "--memory", std::to_string(total)});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  // The system counts what this process has held as the command's.
  rusage own{};
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &own), 0);
  EXPECT_LE(ran.peak_resident, std::max(total, static_cast<std::uint64_t>(own.ru_maxrss) * 1024));
  std::ifstream out(work_ / "out.jsonl");
  std::string text;
  for (int i = 0; std::getline(out, text); ++i) {
    const auto holds = [&](std::string_view part) { return text.find(part) != text.npos; };
    EXPECT_TRUE(holds(fmt::format("\"id\":{},", i + 1)));
    EXPECT_EQ(holds("wanted at most 233, or fewer tokens"), i == 1) << text.substr(0, 500);
    EXPECT_EQ(holds("\"finish_reason\":\"length\",\"logprobs\":[{"), i != 1);
    EXPECT_TRUE(text.ends_with("}")) << i;
  }
}

}  // namespace
}  // namespace ingot
