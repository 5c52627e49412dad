// The main numerical check, through the command: a tiny model's float32 logits are those that
// transformers gave, with the prompt whole and with the last 16 tokens one at a time.
#include "base/file.h"
#include "base/json.h"
#include "formats/npy.h"

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr float kTolerance = 1e-4F;

const fs::path kFixtures = INGOT_FIXTURES;

struct Case {
  std::string name;
  fs::path model;
  std::vector<std::int32_t> tokens;
  fs::path logits;
};

std::vector<std::int32_t> tokens_in(const Json& json) {
  auto all = json.at("prompt").get<std::vector<std::int32_t>>();
  const auto more = json.at("continuation").get<std::vector<std::int32_t>>();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::int32_t> tokens_of(const fs::path& folder) {
  return tokens_in(parse_json(read_file(folder / "tokens.json"), "tokens.json"));
}

// One of each kind of checkpoint: every tiny model, file and folder is tried inside the process
// (tests/llm, tests/builder).
std::vector<Case> one_of_each_kind() {
  const fs::path models = kFixtures / "models", same = models / "llama_bf16_sharded";
  const fs::path gguf = kFixtures / "gguf";
  return {{"sharded folder", same, tokens_of(same), same / "logits.npy"},
          {"windowed folder", models / "mistral", tokens_of(models / "mistral"),
           models / "mistral" / "logits.npy"},
          {"Meta folder", kFixtures / "meta" / "llama3_mp2", tokens_of(same), same / "logits.npy"},
          {"GGUF", gguf / "k_mixed.gguf",
           tokens_in(parse_json(read_file(gguf / "index.json"), "index.json").at("k_mixed")),
           gguf / "k_mixed.npy"}};
}

void expect_logits(const WorkFolder& work, const Case& c, const char* steps) {
  std::string ids;
  for (const std::int32_t id : c.tokens) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  const std::string out = work / "logits.npy";
  const CommandResult r =
      work.run({"logits", c.model, "--device", "cpu", "--threads", "2", "--compute", "f32",
                "--tokens", ids, "--steps", steps, "-o", out});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out, "");
  const NpyArray got = read_npy(out), wanted = read_npy(c.logits);
  ASSERT_EQ(to_string(got.shape), to_string(wanted.shape));
  float worst = 0;
  std::size_t at = 0;
  const auto a = got.as<float>(), b = wanted.as<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float off = std::abs(a[i] - b[i]);
    if (!(off <= worst)) worst = off, at = i;
  }
  EXPECT_LE(worst, kTolerance) << "row " << at / static_cast<std::size_t>(got.shape[1])
                               << ", token " << at % static_cast<std::size_t>(got.shape[1]);
}

TEST(ModelsTest, LogitsAreTheFrozenOnesWholeAndInSteps) {
  const WorkFolder work;
  for (const Case& c : one_of_each_kind())
    for (const char* steps : {"0", "16"}) {
      SCOPED_TRACE(c.name + ", steps " + steps);
      expect_logits(work, c, steps);
    }
}

}  // namespace
}  // namespace ingot
