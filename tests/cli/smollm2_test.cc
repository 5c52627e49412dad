// The real small model: greedy answers of the reference, token by token, and how far the native
// arithmetic is from float32. Skipped where scripts/fetch_smollm2 has not been run.
#include "base/file.h"
#include "base/json.h"
#include "formats/npy.h"

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fs::path(INGOT_FIXTURES) / "smollm2";
constexpr std::size_t kPositions = 512;
constexpr double kMeanKl = 0.01;
constexpr double kPerplexityPart = 0.01;

fs::path model_path() {
  const char* cache = std::getenv("INGOT_CACHE");
  const char* home = std::getenv("HOME");
  const fs::path root =
      cache && *cache ? fs::path(cache) : fs::path(home ? home : "/") / ".cache" / "ingot";
  return root / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(model_path()))
      GTEST_SKIP() << model_path() << " is not there; scripts/fetch_smollm2 fetches it";
  }
  void run(const std::vector<std::string>& arguments) {
    result_ = work_.run(arguments);
    ASSERT_EQ(result_.exit_code, 0) << result_.err;
  }
  NpyArray logits(const std::string& ids_file, const std::string& compute,
                  const std::string& kv_cache = "auto") {
    const std::string out = work_ / (compute + kv_cache + ".npy");
    run({"logits", model_path(), "--device", "cpu", "--tokens-file", ids_file, "--compute", compute,
         "--kv-cache", kv_cache, "-o", out});
    return read_npy(out);
  }
  double perplexity(const std::string& compute) {
    run({"perplexity", model_path(), kFixtures / "english.txt", "--device", "cpu", "--compute",
         compute, "--json"});
    return parse_json(result_.out, "perplexity").at("perplexity");
  }
  // A file with the first kPositions ids of the English text.
  std::string ids_file(const std::vector<std::int32_t>& ids) const {
    std::string text;
    for (std::size_t i = 0; i < kPositions; ++i) text += std::to_string(ids[i]) + " ";
    return work_.write("ids.txt", text);
  }

  WorkFolder work_;
  CommandResult result_;
};

// What the memory table promises before a build is what a process of the engine then holds.
TEST_F(SmolLm2Test, ResidentMemoryIsWhatWasPlanned) {
  for (const char* kv_cache : {"bf16", "int8", "fp8"}) {
    SCOPED_TRACE(kv_cache);
    const std::string engine = work_ / (std::string(kv_cache) + ".ingot");
    const std::vector<std::string> build = {"build",       model_path(), "-o",         engine,
                                            "--target",    "cpu",        "--max-seq",  "2048",
                                            "--max-batch", "1",          "--kv-cache", kv_cache};
    std::vector<std::string> dry = build;
    dry.insert(dry.end(), {"--dry-run", "--json"});
    run(dry);
    const Json memory = parse_json(result_.out, "the table").at("memory");
    const auto bytes = [&](const char* what) { return memory.at(what).get<double>(); };
    // Thirty layers, three heads of 64 values for K and for V.
    const double row = std::string(kv_cache) == "bf16" ? 64 * 2 : 64 + 4;
    EXPECT_EQ(bytes("kv_pool"), 2048 * 30 * 2 * 3 * row);
    run(build);
    std::string prompt;
    for (int i = 0; i < 1900; ++i) prompt += "hello ";
    run({"run", engine, "-p", prompt, "--max-tokens", "64", "--temperature", "0", "--ignore-eos",
         "--device", "cpu", "--threads", "2"});
    const auto peak = static_cast<double>(result_.peak_resident);
    constexpr double kProcess = 40 << 20;
    // Weights are read where they are mapped; the context is nearly full.
    EXPECT_GT(peak, bytes("weights") + 0.9 * bytes("kv_pool"));
    EXPECT_LE(peak, 1.15 * bytes("weights") + bytes("kv_pool") + bytes("activations") +
                        bytes("workspace") + kProcess);
  }
}

// A full context in 30 layers, each a little more than a huge page: the cap holds all the same.
TEST_F(SmolLm2Test, MemoryIsAHardCap) {
  const std::string engine = work_ / "capped.ingot";
  run({"build", model_path(), "-o", engine, "--target", "cpu", "--memory", "200M", "--max-seq",
       "2752"});
  std::string prompt;
  for (int i = 0; i < 2735; ++i) prompt += "hello ";
  run({"run", engine, "-p", prompt, "--memory", "200M", "--max-tokens", "8", "--temperature", "0",
       "--ignore-eos", "--device", "cpu", "--threads", "2"});
  EXPECT_LE(result_.peak_resident, std::size_t{200} << 20);
}

TEST_F(SmolLm2Test, GreedyAnswersAreTheReferences) {
  const Json cases = parse_json(read_file(kFixtures / "greedy.json"), "greedy.json");
  ASSERT_EQ(cases.size(), 10U);
  std::string lines;
  for (const Json& c : cases)
    lines += dump_json(Json{{"id", c.at("name")},
                            {"prompt_token_ids", c.at("prompt")},
                            {"temperature", 0},
                            {"repetition_penalty", 1.0},
                            {"ignore_eos", true},
                            {"max_tokens", c.at("greedy").size()}}) +
             "\n";
  run({"batch", model_path(), "--device", "cpu", "--compute", "f32", "-i",
       work_.write("in.jsonl", lines), "-o", work_ / "out.jsonl"});
  std::ifstream out(work_ / "out.jsonl");
  for (const Json& c : cases) {
    std::string line;
    ASSERT_TRUE(std::getline(out, line));
    const Json answer = parse_json(line, "an answer");
    EXPECT_EQ(answer.at("id"), c.at("name"));
    EXPECT_EQ(answer.at("token_ids"), c.at("greedy")) << c.at("name");
  }
}

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - top);
  std::vector<double> out(logits.begin(), logits.end());
  for (double& x : out) x -= top + std::log(sum);
  return out;
}

// Kullback-Leibler divergence of `other` from `exact`, averaged over the positions.
double mean_divergence(const NpyArray& exact, const NpyArray& other) {
  const auto vocab = static_cast<std::size_t>(exact.shape[1]);
  double sum = 0;
  for (std::size_t i = 0; i < kPositions; ++i) {
    const auto p = log_probabilities(exact.as<float>().subspan(i * vocab, vocab));
    const auto q = log_probabilities(other.as<float>().subspan(i * vocab, vocab));
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(p[v]) * (p[v] - q[v]);
  }
  return sum / static_cast<double>(kPositions);
}

TEST_F(SmolLm2Test, NativeArithmeticIsCloseToFloat32) {
  const Json english = parse_json(read_file(kFixtures / "english.json"), "english.json");
  const auto ids = english.at("ids").get<std::vector<std::int32_t>>();
  const auto nll = english.at("nll").get<std::vector<double>>();
  ASSERT_GT(ids.size(), kPositions);
  const std::string file = ids_file(ids);
  const NpyArray exact = logits(file, "f32");
  const auto vocab = static_cast<std::size_t>(exact.shape[1]);
  for (std::size_t i = 0; i < kPositions; ++i) {
    const auto p = log_probabilities(exact.as<float>().subspan(i * vocab, vocab));
    EXPECT_NEAR(-p[static_cast<std::size_t>(ids[i + 1])], nll[i], 1e-3) << "position " << i;
  }
  const double kl = mean_divergence(exact, logits(file, "native"));
  RecordProperty("mean_kl", std::to_string(kl));
  EXPECT_LT(kl, kMeanKl);
  EXPECT_GT(kl, 0) << "the native mode is not float32";
}

// Everything else in float32.
TEST_F(SmolLm2Test, EightBitKvCachesAreCloseToFloat32) {
  const Json english = parse_json(read_file(kFixtures / "english.json"), "english.json");
  const std::string file = ids_file(english.at("ids").get<std::vector<std::int32_t>>());
  const NpyArray exact = logits(file, "f32");
  for (const auto& [kv_cache, bound] : {std::pair("int8", 1e-3), {"fp8", 5e-3}}) {
    const double kl = mean_divergence(exact, logits(file, "f32", kv_cache));
    std::printf("--kv-cache %s: mean KL %.5f\n", kv_cache, kl);
    EXPECT_LT(kl, bound) << kv_cache;
    EXPECT_GT(kl, 0) << kv_cache;
  }
}

TEST_F(SmolLm2Test, PerplexityIsTheReferences) {
  const double wanted =
      parse_json(read_file(kFixtures / "english.json"), "english.json").at("perplexity");
  EXPECT_NEAR(perplexity("f32") / wanted, 1, 1e-5);
  EXPECT_NEAR(perplexity("native") / wanted, 1, kPerplexityPart);
}

}  // namespace
}  // namespace ingot
