// `ingot bench offline`, and what `batch` shares with it: policy, host memory, statistics.
#include "base/file.h"
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ingot {
namespace {

using testing::HasSubstr;

const std::string kModel = std::string(INGOT_FIXTURES) + "/models/llama";

class BenchOfflineTest : public testing::Test {
 protected:
  // Of `ingot bench offline` on the tiny model.
  CommandResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "offline", kModel, "--device", "cpu"});
    return work_.run(arguments);
  }
  Json json(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const CommandResult r = run(std::move(arguments));
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return parse_json(r.out, "standard output");
  }
  // Lines of a statistics file by their type.
  static std::map<std::string, std::vector<Json>> statistics(const std::filesystem::path& file) {
    std::map<std::string, std::vector<Json>> lines;
    std::istringstream text(read_file(file));
    for (std::string line; std::getline(text, line);) {
      Json json = parse_json(line, "statistics");
      const auto type = json.at("type").get<std::string>();
      lines[type].push_back(std::move(json));
    }
    return lines;
  }

  WorkFolder work_;
};

TEST_F(BenchOfflineTest, CountsWhatWasAskedFor) {
  const Json r = json({"--requests", "6", "--input", "20", "--output", "10", "--max-batch", "3"});
  EXPECT_EQ(r.at("requests"), 6);
  EXPECT_EQ(r.at("input_tokens"), 120);
  EXPECT_EQ(r.at("output_tokens"), 60);
  EXPECT_EQ(r.at("cached_tokens"), 0);
  EXPECT_EQ(r.at("max_batch"), 3);
  EXPECT_EQ(r.at("preemptions"), 0);
  // Two rounds of three: a step that reads the prompts and nine others.
  EXPECT_EQ(r.at("steps"), 20);
  EXPECT_DOUBLE_EQ(r.at("occupancy").get<double>(), 1);
  EXPECT_NEAR(r.at("output_tokens_per_s").get<double>() * r.at("seconds").get<double>(), 60, 1e-6);
  EXPECT_NEAR(r.at("total_tokens_per_s").get<double>() * r.at("seconds").get<double>(), 180, 1e-6);
}

TEST_F(BenchOfflineTest, AnswersMayEndBeforeWhatTheyAskFor) {
  const std::vector<std::string> uneven = {
      "--requests", "9", "--input", "12", "--output", "16", "--spread", "100", "--max-batch", "3"};
  const Json known = json(uneven);
  std::vector<std::string> unknown = uneven;
  unknown.insert(unknown.end(), {"--max-tokens", "40"});
  const Json ends = json(unknown);
  EXPECT_EQ(ends.at("output_tokens"), known.at("output_tokens"));
  EXPECT_EQ(ends.at("steps"), known.at("steps"));
}

TEST_F(BenchOfflineTest, SharedPromptsAreFoundInTheCache) {
  Json config = parse_json(read_file(kModel + "/config.json"), "config.json");
  config["max_position_embeddings"] = 1024;
  const CommandResult r =
      work_.run({"bench", "offline", work_.write("config.json", dump_json(config)),
                 "--random-weights", "--device", "cpu", "--requests", "4", "--input", "200",
                 "--output", "4", "--max-batch", "1", "--shared", "150", "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(parse_json(r.out, "standard output").at("cached_tokens"), 3 * 128) << "whole pages";
}

// A pool that holds less than the batch wants: only one of the policies never pauses anybody.
TEST_F(BenchOfflineTest, PoliciesDifferInWhoIsPaused) {
  Json config = parse_json(read_file(kModel + "/config.json"), "config.json");
  config["max_position_embeddings"] = 1024;
  const std::string file = work_.write("config.json", dump_json(config));
  const auto with = [&](std::uint64_t memory, const std::string& policy) {
    const CommandResult r =
        work_.run({"bench", "offline", file, "--device", "cpu", "--random-weights", "--requests",
                   "24", "--input", "40", "--output", "300", "--max-batch", "16", "--memory",
                   std::to_string(memory), "--policy", policy, "--json"});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return parse_json(r.out, "standard output");
  };
  constexpr std::uint64_t kMuch = std::uint64_t{45} << 20, kPageBytes = 64 * 256;
  const auto pages = with(kMuch, "max-utilization").at("pages").get<std::uint64_t>();
  ASSERT_GT(pages, 40u);
  const std::uint64_t little = kMuch - (pages - 40) * kPageBytes;  // 16 want 6 pages each
  std::map<std::string, Json> by_policy;
  for (const char* policy : {"max-utilization", "guaranteed-no-evict", "expected-length"}) {
    by_policy[policy] = with(little, policy);
    EXPECT_EQ(by_policy[policy].at("pages"), 40) << policy;
    EXPECT_EQ(by_policy[policy].at("output_tokens"), 24 * 300) << policy;
  }
  EXPECT_GT(by_policy["max-utilization"].at("preemptions"), 0);
  EXPECT_EQ(by_policy["guaranteed-no-evict"].at("preemptions"), 0);
}

TEST_F(BenchOfflineTest, RefusesWhatCannotBe) {
  EXPECT_EQ(run({"--input", "60", "--output", "10"}).exit_code, 2);
  EXPECT_EQ(run({"--output", "10", "--input", "5", "--max-tokens", "4"}).exit_code, 2);
  EXPECT_EQ(run({"--policy", "luck"}).exit_code, 2);
  EXPECT_THAT(run({"--input", "32", "--output", "4", "--shared", "32"}).err,
              HasSubstr("--shared 32: wanted less than --input 32"));
  EXPECT_EQ(run({"--host-memory", "1"}).exit_code, 4);
  EXPECT_THAT(work_.run({"bench", "offline"}).err, HasSubstr("MODEL"));
  EXPECT_EQ(work_.run({"bench"}).exit_code, 2);
}

TEST_F(BenchOfflineTest, StatisticsAgreeWithTheReport) {
  const auto file = work_ / "statistics.jsonl";
  const Json r = json({"--requests", "5", "--input", "20", "--output", "6", "--max-batch", "2",
                       "--stats", file.string()});
  const auto lines = statistics(file);
  EXPECT_EQ(lines.at("step").size(), r.at("steps").get<std::size_t>());
  ASSERT_EQ(lines.at("request").size(), 5u);
  ASSERT_EQ(lines.at("summary").size(), 1u);
  std::int64_t tokens = 0;
  for (const Json& step : lines.at("step")) tokens += step.at("tokens").get<std::int64_t>();
  EXPECT_EQ(tokens, 5 * (20 + 5)) << "the last token of an answer is never read";
  for (const Json& request : lines.at("request")) {
    EXPECT_EQ(request.at("generated_tokens"), 6);
    EXPECT_EQ(request.at("pages"), 1);
    EXPECT_GE(request.at("first_token_seconds"), request.at("queue_seconds"));
  }
  EXPECT_EQ(lines.at("summary").front().at("generated_tokens"), 30);
}

TEST_F(BenchOfflineTest, BatchTellsItsStatisticsToo) {
  const std::string in =
      work_.write("in.jsonl", R"({"prompt_token_ids":[5,6],"max_tokens":3,"ignore_eos":true})"
                              "\n");
  const CommandResult r =
      work_.run({"batch", kModel, "-i", in, "-o", work_ / "out.jsonl", "--stats", work_ / "s.jsonl",
                 "--policy", "guaranteed-no-evict"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto lines = statistics(work_ / "s.jsonl");
  EXPECT_EQ(lines.at("request").size(), 1u);
  EXPECT_EQ(lines.at("step").size(), 3u);
  const std::string fresh = work_ / "fresh.jsonl";
  for (const auto& [out, stats] : std::vector<std::pair<std::string, std::string>>{
           {work_ / "out.jsonl", in},
           {work_ / "out.jsonl", "-"},
           {fresh, fresh},
           {fresh, work_ / "." / "fresh.jsonl.partial"},
           {"-", "/dev/stdout"}})
    EXPECT_EQ(work_.run({"batch", kModel, "-i", in, "-o", out, "--stats", stats}).exit_code, 2)
        << out << " " << stats;
  EXPECT_FALSE(std::filesystem::exists(fresh));
}

}  // namespace
}  // namespace ingot
