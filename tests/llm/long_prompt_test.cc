// A prompt of 32,768 tokens, in chunks, in the memory that the plan names: SmolLM2's shape with its
// rope scaled by four and made-up weights. INGOT_LONG_PROMPT_LAYERS sets the layers, SmolLM2 has 30
// (scripts/soak long); the few of the ordinary run make it short.
#include "llm/model.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/builder/edited_checkpoint.h"
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kContext = 32768;
constexpr std::int64_t kShort = 2048;
constexpr std::int32_t kAnswer = 4;
// What the allocator and the books of a request may add: token ids and the like, no tensors.
constexpr std::uint64_t kSlack = std::uint64_t{8} << 20;
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

std::int64_t layers() {
  const char* asked = std::getenv("INGOT_LONG_PROMPT_LAYERS");
  return asked ? std::atoll(asked) : 2;
}

Json config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_act", "silu"},
          {"hidden_size", 576},
          {"intermediate_size", 1536},
          {"num_hidden_layers", layers()},
          {"num_attention_heads", 9},
          {"num_key_value_heads", 3},
          {"vocab_size", 49152},
          {"tie_word_embeddings", true},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 100000.0},
          {"rope_scaling",
           {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8192}}},
          {"max_position_embeddings", kContext},
          {"eos_token_id", 2},
          {"torch_dtype", "bfloat16"}};
}

// Bytes of a line of /proc/self/status.
std::uint64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (file >> word)
    if (word == name + ":") file >> kilobytes;
  return kilobytes * 1024;
}

double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// What a process of its own saw.
struct Seen {
  std::uint64_t opened = 0;   // bytes of its own, not of files, that opening added
  std::uint64_t highest = 0;  // resident bytes at their peak
  std::uint64_t table = 0;    // the plan's total, the process itself included
  std::uint64_t taken = 0;    // of it, activations, workspace and the KV pool
  std::uint64_t page = 0;
  std::int64_t kv_pages = 0;
  std::int64_t steps = 0;
  std::int32_t tokens = 0;  // of the answer
};

class LongPromptTest : public testing::Test {
 protected:
  LongPromptTest() { test::write_text(folder_.path() / "config.json", config().dump()); }

  // Memory of the process that answers alone: building an engine takes some of its own.
  static Seen in_child(const std::function<Seen()>& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      Seen seen;
      try {
        seen = work();
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
      const bool told = write(ends[1], &seen, sizeof seen) == sizeof seen;
      _exit(told ? 0 : 1);
    }
    Seen seen;
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
    close(ends[0]);
    int how = 0;
    EXPECT_EQ(waitpid(child, &how, 0), child);
    EXPECT_EQ(how, 0);
    return seen;
  }

  std::unique_ptr<Model> open(bool memory_present) const {
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.memory_present = memory_present;
    o.random_weights = true;
    o.build.max_batch = 1;
    o.build.max_seq = kContext;
    return Model::open((folder_.path() / "config.json").string(), o);
  }

  Seen answer(std::int64_t prompt, bool memory_present) const {
    return in_child([&] {
      const std::uint64_t start = status("RssAnon");
      const auto model = open(memory_present);
      const MemoryNeeds needs = memory_needs(model->plan(), model->device());
      const std::int64_t pages = model->executor().kv_pages();
      Seen seen{.opened = status("RssAnon") - start,
                .table = memory_table(model->plan(), model->device(), pages).back().bytes,
                .taken = needs.activations + needs.workspace +
                         needs.page * static_cast<std::uint64_t>(pages),
                .page = needs.page,
                .kv_pages = pages};
      Request request{.sampling = {.temperature = 0, .max_tokens = kAnswer, .ignore_eos = true}};
      for (std::int64_t i = 0; i < prompt; ++i)
        request.prompt.push_back(static_cast<std::int32_t>(3 + i * i % 40009));
      model->loop().submit(std::move(request)).value_or_throw();
      while (model->loop().has_work()) {
        for (const OutputEvent& e : model->loop().step())
          seen.tokens += static_cast<std::int32_t>(e.tokens.size());
        ++seen.steps;
      }
      seen.highest = status("VmHWM");
      return seen;
    });
  }

  test::OwnCache cache_;
  test::TemporaryFolder folder_;
};

TEST_F(LongPromptTest, RunsInChunksWithinThePlannedMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "memory is what the sanitizer takes";
#endif
  in_child([&] {  // builds the engine
    open(false);
    return Seen();
  });
  // What is taken at once is what the plan says, and an answer takes nothing on top.
  const Seen present = answer(kShort, true);
  EXPECT_EQ(present.tokens, kAnswer);
  EXPECT_EQ(present.kv_pages * 64, kContext);
  EXPECT_NEAR(static_cast<double>(present.opened), static_cast<double>(present.taken),
              static_cast<double>(kSlack));
  EXPECT_LE(present.highest, present.table);
  // Where it comes at the first touch, prompts differ by the pages that they fill, or by less: a
  // layer's first ones come with what else its huge page holds.
  const Seen brief = answer(kShort, false);
  const Seen whole = answer(kContext - kAnswer, false);
  EXPECT_EQ(whole.tokens, kAnswer);
  EXPECT_GE(whole.steps, kContext / 512);
  const std::uint64_t kv = whole.page * static_cast<std::uint64_t>((kContext - kShort) / 64);
  const std::uint64_t growth = whole.highest - brief.highest;
  EXPECT_LE(growth, kv + kSlack);
  EXPECT_GE(growth + kSlack + kHugePage * static_cast<std::uint64_t>(layers()), kv);
  EXPECT_LE(whole.highest, whole.table);
  std::printf(
      "%lld layers: peak %.1f MiB, planned %.1f; %.1f above 2,048 tokens, KV of these %.1f\n",
      static_cast<long long>(layers()), mib(whole.highest), mib(whole.table), mib(growth), mib(kv));
}

}  // namespace
}  // namespace ingot
