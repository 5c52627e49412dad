// What reports about engines name: windows at their edges, numbers beyond half precision, and
// answers that depend on their neighbours. Oracles are properties, exact where powers of two are.
#include "base/file.h"
#include "llm/model.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

namespace ingot {
namespace {

namespace fs = std::filesystem;

using test::EditedCheckpoint;
using test::StoredTensor;
using Tokens = std::vector<std::int32_t>;
using Logits = std::vector<float>;

const fs::path kModels = fs::path(INGOT_FIXTURES) / "models";
constexpr ComputeMode kModes[] = {ComputeMode::kF32, ComputeMode::kNative};

class NumericsTest : public testing::Test {
 protected:
  static std::unique_ptr<Model> open(const fs::path& path, ComputeMode mode, std::int64_t batch = 1,
                                     std::int64_t step_tokens = 512,
                                     const std::string& kv_cache = "auto") {
    OpenOptions o;
    o.build.kv_cache = kv_cache;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = batch;
    o.build.mode = mode;
    o.build.max_batch = batch;
    o.build.max_tokens = step_tokens;
    return Model::open(path, o);
  }
  static Logits score(Model& model, const Tokens& tokens, std::int64_t steps = 0) {
    Logits all;
    model.score(tokens, steps, [&](std::int64_t, std::int64_t, std::span<const float> rows) {
      all.insert(all.end(), rows.begin(), rows.end());
    });
    return all;
  }
  static Tokens tokens_of(const std::string& name) {
    const Json json = parse_json(read_file(kModels / name / "tokens.json"), "tokens.json");
    Tokens all = json.at("prompt").get<Tokens>();
    for (const std::int32_t id : json.at("continuation").get<Tokens>()) all.push_back(id);
    return all;
  }
  static bool finite(const Logits& logits) {
    return std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
  }
  static void multiply(EditedCheckpoint& c, const std::string& part, float factor) {
    for (auto& [name, tensor] : c.tensors) {
      if (name.find(part) == std::string::npos) continue;
      std::vector<float> values = tensor.as_floats();
      for (float& x : values) x *= factor;
      tensor = StoredTensor::floats(tensor.shape, values);
    }
  }

  test::OwnCache cache_;
};

// A token sees the `window` last tokens, itself among them, however it gets there.
TEST_F(NumericsTest, WindowsAtTheirEdges) {
  const Tokens tokens = tokens_of("mistral");
  const auto n = static_cast<std::int64_t>(tokens.size());
  const auto windowed = [&](const Json& window, ComputeMode mode) {
    EditedCheckpoint c(kModels / "mistral");
    c.config()["sliding_window"] = window;
    const fs::path path = c.save();
    const Logits whole = score(*open(path, mode), tokens);
    EXPECT_EQ(score(*open(path, mode, 1, 5), tokens), whole) << "in chunks of 5, " << window;
    EXPECT_EQ(score(*open(path, mode), tokens, n - 1), whole) << "one by one, " << window;
    return whole;
  };
  for (const ComputeMode mode : kModes) {
    const Logits open_end = windowed(nullptr, mode);
    EXPECT_EQ(windowed(n + 1, mode), open_end);
    EXPECT_EQ(windowed(n, mode), open_end);
    const Logits narrower = windowed(n - 1, mode);  // the last token misses the first
    const auto row = static_cast<std::ptrdiff_t>(open_end.size()) / n;
    EXPECT_TRUE(std::equal(open_end.begin(), open_end.end() - row, narrower.begin()));
    EXPECT_FALSE(std::equal(open_end.end() - row, open_end.end(), narrower.end() - row));
    // Only itself: a row is that of its token alone.
    const Logits alone = windowed(1, mode);
    EditedCheckpoint c(kModels / "mistral");
    c.config()["sliding_window"] = 1;
    const auto model = open(c.save(), mode);
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{7}, n - 1}) {
      const Logits one = score(*model, {tokens[static_cast<std::size_t>(i)]});
      for (std::ptrdiff_t v = 0; v < row; ++v)
        ASSERT_NEAR(alone[static_cast<std::size_t>(i * row + v)], one[static_cast<std::size_t>(v)],
                    1e-6)
            << i;
    }
  }
}

// The norms take a power of two out again, so the logits do not change by a bit: nothing in
// between may be kept in a type that ends at 65504.
TEST_F(NumericsTest, AResidualStreamBeyondHalfPrecision) {
  const Tokens tokens = tokens_of("llama");
  const auto scaled = [&](float factor, ComputeMode mode) {
    EditedCheckpoint c(kModels / "llama");
    c.config()["rms_norm_eps"] = 1e-30;
    for (const char* part : {"embed_tokens", "o_proj", "down_proj"}) multiply(c, part, factor);
    return score(*open(c.save(), mode), tokens);
  };
  for (const ComputeMode mode : kModes) {
    const Logits plain = scaled(1, mode);
    EXPECT_TRUE(finite(plain));
    EXPECT_EQ(scaled(0x1p26F, mode), plain);
  }
}

// Scores so large that a softmax is a choice stay a choice when they grow; none becomes infinite.
TEST_F(NumericsTest, AttentionScoresBeyondHalfPrecision) {
  const Tokens tokens = tokens_of("llama");
  for (const char* kv_cache : {"auto", "int8", "fp8"}) {
    SCOPED_TRACE(kv_cache);
    const auto sharpened = [&](float factor, ComputeMode mode) {
      EditedCheckpoint c(kModels / "llama");
      multiply(c, "q_proj", factor);
      multiply(c, "k_proj", factor);
      return score(*open(c.save(), mode, 1, 512, kv_cache), tokens);
    };
    for (const ComputeMode mode : kModes) {
      const Logits large = sharpened(0x1p16F, mode), larger = sharpened(0x1p24F, mode);
      EXPECT_TRUE(finite(large));
      EXPECT_EQ(large, larger);
      EXPECT_NE(large, sharpened(1, mode));
    }
  }
}

// Sixty-four prompts of any length, one of them as long as the context allows.
TEST_F(NumericsTest, ManyPromptsAreEachAnsweredAsAlone) {
  std::mt19937 random(5);
  for (const auto& [prompts, batch] :
       std::vector<std::pair<int, std::int64_t>>{{3, 3}, {20, 20}, {64, 7}, {64, 64}}) {
    const auto model = open(kModels / "mistral", ComputeMode::kNative, batch);
    const auto longest = static_cast<std::size_t>(model->info().max_seq) - 1;
    std::vector<Request> requests;
    for (int i = 0; i < prompts; ++i) {
      Tokens prompt(i == 1 ? longest : 1 + random() % 40);
      for (std::int32_t& id : prompt) id = static_cast<std::int32_t>(random() % 131);
      requests.push_back(
          {.prompt = prompt,
           .sampling = {.temperature = 0, .max_tokens = 1 + i % 9, .ignore_eos = true}});
    }
    std::map<RequestId, Tokens> answers;
    std::vector<RequestId> ids;
    for (const Request& r : requests) ids.push_back(model->loop().submit(r).value_or_throw());
    while (model->loop().has_work())
      for (const OutputEvent& e : model->loop().step())
        answers[e.id].insert(answers[e.id].end(), e.tokens.begin(), e.tokens.end());
    for (std::size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(answers[ids[i]], model->generate(requests[i]).tokens)
          << "prompt " << i << " of " << prompts << ", " << batch << " at once";
  }
}

}  // namespace
}  // namespace ingot
