#include "llm/model.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/npy.h"
#include "llm/contents.h"
#include "plan/engine_file.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace ingot {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(INGOT_FIXTURES) / "models";

class ModelTest : public testing::Test {
 protected:
  static OpenOptions options(ComputeMode mode, std::int64_t batch = 4) {
    OpenOptions o;
    o.device = "cpu";
    o.threads = 2;
    o.sequences = batch;
    o.build.mode = mode;
    o.build.max_batch = batch;
    return o;
  }

  static std::vector<std::int32_t> tokens_of(const std::string& name, const char* key) {
    const Json json = parse_json(read_file(kModels / name / "tokens.json"), "tokens.json");
    return json.at(key).get<std::vector<std::int32_t>>();
  }

  static std::vector<float> score(Model& model, std::span<const std::int32_t> tokens,
                                  std::int64_t steps) {
    std::vector<float> all;
    model.score(
        tokens, steps, [&](std::int64_t first, std::int64_t count, std::span<const float> rows) {
          EXPECT_EQ(static_cast<std::size_t>(first) * static_cast<std::size_t>(model.info().vocab),
                    all.size());
          EXPECT_EQ(rows.size(), static_cast<std::size_t>(count * model.info().vocab));
          all.insert(all.end(), rows.begin(), rows.end());
        });
    return all;
  }

  test::OwnCache cache_;
};

std::vector<std::int32_t> joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(ModelTest, LogitsEqualTheFrozenOnesWholeAndInSteps) {
  for (const auto& folder : fs::directory_iterator(kModels)) {
    const std::string name = folder.path().filename();
    if (!fs::exists(folder.path() / "logits.npy")) continue;
    SCOPED_TRACE(name);
    const auto model = Model::open(folder.path(), options(ComputeMode::kF32));
    const auto tokens = joined(tokens_of(name, "prompt"), tokens_of(name, "continuation"));
    const NpyArray frozen = read_npy(folder.path() / "logits.npy");
    const auto wanted = frozen.as<float>();
    for (const std::int64_t steps : {0, 16}) {
      const std::vector<float> got = score(*model, tokens, steps);
      ASSERT_EQ(got.size(), wanted.size());
      float worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::abs(got[i] - wanted[i]));
      EXPECT_LT(worst, 1e-4f) << "steps " << steps;
    }
  }
}

TEST_F(ModelTest, ArenaIsTakenToTheByte) {
  const auto model = Model::open(kModels / "llama", options(ComputeMode::kNative));
  EXPECT_EQ(model->executor().arena_bytes(), model->plan().arena_bytes);
  EXPECT_EQ(model->executor().workspace_bytes(), model->plan().workspace_bytes);
  const MemoryNeeds needs = memory_needs(model->plan(), model->device());
  EXPECT_EQ(model->executor().kv_bytes(),
            needs.page * static_cast<std::uint64_t>(model->executor().kv_pages()));
}

TEST_F(ModelTest, GreedyTextIsTheFrozenContinuation) {
  for (const char* name : {"llama", "mistral", "qwen2"}) {
    SCOPED_TRACE(name);
    const auto model = Model::open(kModels / name, options(ComputeMode::kF32));
    const auto wanted = tokens_of(name, "continuation");
    const OutputEvent answer =
        model->generate({.prompt = tokens_of(name, "prompt"),
                         .sampling = {.temperature = 0, .max_tokens = 16, .ignore_eos = true}});
    EXPECT_EQ(answer.tokens, wanted);
    EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_EQ(answer.usage.completion_tokens, 16);
  }
}

// The promise: a request gives the same tokens and log-probabilities alone and in any company.
TEST_F(ModelTest, ABatchGivesWhatEachRequestGivesAlone) {
  const auto model = Model::open(kModels / "llama", options(ComputeMode::kNative));
  const auto prompt = tokens_of("llama", "prompt");
  std::vector<Request> requests;
  for (std::size_t n : {1, 5, 17, 30, 37, 2}) {
    Request r{.prompt = {prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(n)}};
    r.sampling = {.temperature = n % 2 == 0 ? 0.0 : 1.0,
                  .seed = n,
                  .max_tokens = 12,
                  .ignore_eos = true,
                  .logprobs = 3};
    requests.push_back(r);
  }
  std::vector<OutputEvent> alone;
  for (const Request& r : requests) alone.push_back(model->generate(r));

  std::map<RequestId, std::size_t> index;
  std::vector<OutputEvent> together(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    index[model->loop().submit(requests[i]).value_or_throw()] = i;
  while (model->loop().has_work()) {
    for (const OutputEvent& e : model->loop().step()) {
      OutputEvent& whole = together[index.at(e.id)];
      whole.tokens.insert(whole.tokens.end(), e.tokens.begin(), e.tokens.end());
      whole.logprobs.insert(whole.logprobs.end(), e.logprobs.begin(), e.logprobs.end());
      whole.text += e.text;
    }
    model->loop().scheduler().check_integrity();
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].tokens, alone[i].tokens) << i;
    EXPECT_EQ(together[i].text, alone[i].text) << i;
    ASSERT_EQ(together[i].logprobs.size(), alone[i].logprobs.size());
    for (std::size_t t = 0; t < alone[i].logprobs.size(); ++t)
      EXPECT_EQ(together[i].logprobs[t].logprob, alone[i].logprobs[t].logprob) << i << " " << t;
  }
  EXPECT_EQ(model->loop().scheduler().cache().available(), model->executor().kv_pages());
}

TEST_F(ModelTest, ThreadsAndChunksDoNotChangeABit) {
  const auto tokens = joined(tokens_of("mistral", "prompt"), tokens_of("mistral", "continuation"));
  std::vector<std::vector<float>> results;
  for (const auto& [threads, max_tokens] :
       std::vector<std::pair<int, int>>{{1, 512}, {2, 512}, {3, 5}, {2, 1}}) {
    OpenOptions o = options(ComputeMode::kNative, 1);
    o.threads = threads;
    o.build.max_tokens = max_tokens;
    const auto model = Model::open(kModels / "mistral", o);
    results.push_back(score(*model, tokens, 0));
  }
  for (std::size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i], results[0]) << i;
}

// A long prompt is read in many steps; each of them may be the last.
TEST_F(ModelTest, AnAnswerStopsWhileItsPromptIsRead) {
  OpenOptions o = options(ComputeMode::kNative, 1);
  o.build.max_tokens = 1;
  const auto model = Model::open(kModels / "llama", o);
  int asked = 0;
  const OutputEvent last = model->generate({.prompt = std::vector<std::int32_t>(40, 5)},
                                           [&](const OutputEvent&) { return ++asked < 3; });
  EXPECT_EQ(last.finish, FinishReason::kCancelled);
  EXPECT_TRUE(last.tokens.empty());
  EXPECT_LE(asked, 4);
  EXPECT_EQ(model->loop().scheduler().cache().available(), model->executor().kv_pages());
}

TEST_F(ModelTest, RefusesWhatCannotRun) {
  const auto model = Model::open(kModels / "llama", options(ComputeMode::kNative));
  const auto refused = [&](Request r) {
    const auto result = model->loop().submit(std::move(r));
    return !result.ok() && result.error().code() == ErrorCode::kRequest;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({.prompt = {-1}}));
  EXPECT_TRUE(refused({.prompt = {320}}));
  EXPECT_TRUE(refused({.prompt = std::vector<std::int32_t>(64, 1)}));
  EXPECT_TRUE(refused({.prompt = {1}, .sampling = {.top_p = 2}}));
  EXPECT_FALSE(model->loop().has_work());
  OpenOptions small = options(ComputeMode::kNative);
  small.memory = 1 << 20;
  try {
    Model::open(kModels / "llama", small);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kDoesNotFit);
  }
}

// Descriptors, threads and mappings of this process, by what is open.
struct Held {
  std::ptrdiff_t descriptors = 0, threads = 0, engines = 0;
  bool operator==(const Held&) const = default;
};
Held held_now() {
  const auto entries = [](const char* folder) {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  Held held{.descriptors = entries("/proc/self/fd"), .threads = entries("/proc/self/task")};
  std::istringstream maps(read_file("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) held.engines += line.ends_with(".ingot");
  return held;
}

// Opened, used and closed again and again, two at once, and ones that cannot be opened.
TEST_F(ModelTest, AModelThatIsClosedLeavesNothingBehind) {
  const auto use = [&] {
    const auto one = Model::open(kModels / "llama", options(ComputeMode::kNative));
    const auto other = Model::open(kModels / "mistral", options(ComputeMode::kNative));
    for (Model* model : {one.get(), other.get()}) {
      const Request r{.prompt = {1, 5}, .sampling = {.temperature = 0, .max_tokens = 3}};
      EXPECT_FALSE(model->generate(r).tokens.empty());
    }
    OpenOptions small = options(ComputeMode::kNative);
    small.memory = 1 << 20;
    EXPECT_THROW(Model::open(kModels / "llama", small), Error);
  };
  // A thread that was joined may be listed for a moment more.
  const auto settled = [](std::ptrdiff_t threads) {
    Held held = held_now();
    for (int i = 0; i < 500 && held.threads > threads; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      held = held_now();
    }
    return held;
  };
  const std::ptrdiff_t threads = held_now().threads;
  use();
  const Held before = settled(threads);
  EXPECT_EQ(before.threads, threads);
  EXPECT_EQ(before.engines, 0);
  for (int i = 0; i < 20; ++i) {
    use();
    ASSERT_EQ(settled(threads), before) << "after " << i + 1;
  }
}

// Everything but the pool is known before; the pool gets what is left of the cap, and never more
// than the sequences at once can use.
TEST_F(ModelTest, ThePoolTakesWhatTheCapLeaves) {
  const OpenOptions unlimited = options(ComputeMode::kNative);
  const auto whole = Model::open(kModels / "llama", unlimited);
  const MemoryNeeds needs = memory_needs(whole->plan(), whole->device());
  const PoolSize size = size_pool(whole->plan(), whole->info(), whole->device(), unlimited);
  const std::int64_t wanted = whole->executor().kv_pages();
  EXPECT_EQ(size.pages, wanted);
  EXPECT_EQ(wanted * whole->plan().page_tokens, 4 * whole->info().max_seq);
  for (std::int64_t pages = 0; pages <= wanted + 1; ++pages) {
    OpenOptions capped = unlimited;
    capped.memory = size.fixed + needs.page * static_cast<std::uint64_t>(pages) + needs.page - 1;
    if (pages == 0) {
      EXPECT_THROW(Model::open(kModels / "llama", capped), Error);
      continue;
    }
    const auto model = Model::open(kModels / "llama", capped);
    EXPECT_EQ(model->executor().kv_pages(), std::min(pages, wanted));
    EXPECT_LE(memory_table(model->plan(), model->device(), pages).back().bytes, capped.memory);
  }
  // Host pages lie under the same cap.
  OpenOptions hosted = unlimited;
  hosted.host_memory = 2 * needs.page;
  hosted.memory = size.fixed + 3 * needs.page;
  const auto model = Model::open(kModels / "llama", hosted);
  EXPECT_EQ(model->executor().host_pages(), 2);
  EXPECT_EQ(model->executor().kv_pages(), 1);
}

// Checksums keep nobody out who writes a manifest: whatever it holds, it is read or refused.
TEST_F(ModelTest, ManifestsThatLieAreRefused) {
  const OpenOptions o = options(ComputeMode::kNative);
  const auto model = Model::open(kModels / "llama", o);
  const fs::path path = cache_.path() / "lies.ingot";
  int refused = 0;
  const auto try_manifest = [&](const Json& manifest) {
    EngineWriter writer(path);
    writer.commit(manifest);
    try {
      read_contents(path, model->device(), o);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
      ++refused;
    }
  };
  const Json& whole = model->file().manifest();
  try_manifest(whole);
  EXPECT_EQ(refused, 0);
  for (const char* key : {"info", "plan", "graph", "passes"}) {
    SCOPED_TRACE(key);
    const int before = refused;
    for (const Json& value : {Json(nullptr), Json(7), Json("x"), Json{1, 2}, Json{{"a", 1}}}) {
      Json lies = whole;
      lies[key] = value;
      try_manifest(lies);
    }
    Json less = whole;
    less.erase(key);
    try_manifest(less);
    EXPECT_GE(refused - before, 5);
  }
  for (const Json& nodes : {Json(1e30), Json(-1), Json(UINT64_MAX), Json("7")}) {
    const int before = refused;
    Json lies = whole;
    lies["passes"][0]["nodes"] = nodes;
    try_manifest(lies);
    EXPECT_EQ(refused, before + 1) << nodes;
  }
}

// Found while the model answers: whoever asks then is told, and gets no invented text.
TEST_F(ModelTest, DamagedWeightsAreFoundInTheBackground) {
  const OpenOptions o = options(ComputeMode::kNative);
  const fs::path good = Model::open(kModels / "llama", o)->file().path();
  const fs::path path = cache_.path() / "flipped.ingot";
  fs::copy(good, path);
  const auto finished = [](const Model& model) {
    while (!model.background_check().finished()) std::this_thread::yield();
  };
  const Request request{.prompt = {1, 2, 3}, .sampling = {.max_tokens = 2}};
  auto model = Model::open(path, o);
  finished(*model);
  EXPECT_NO_THROW(model->generate(request));
  const EngineBlob weights = *model->file().find_blob("weights");
  std::string bytes = read_file(path);
  bytes[weights.offset + weights.bytes / 2] ^= 1;
  test::write_text(path, bytes);
  model = Model::open(path, o);
  finished(*model);
  for (const bool whole : {true, false}) {
    try {
      if (whole)
        model->generate(request);
      else
        model->score(request.prompt, 0, [](auto...) {});
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput);
      EXPECT_NE(e.message().find("flipped.ingot: weights is damaged"), std::string::npos)
          << e.message();
    }
    EXPECT_FALSE(model->loop().scheduler().has_work());  // nothing that nobody waits for
  }
}

// Whoever waits gets the whole verdict, however little the thread has had the time for.
TEST_F(ModelTest, WaitingForTheCheckFindsDamageAndRemovesTheCachesFile) {
  const OpenOptions o = options(ComputeMode::kNative);
  const fs::path cached = Model::open(kModels / "llama", o)->file().path();
  const EngineBlob last = EngineFile(cached).blobs().back();
  std::string bytes = read_file(cached);
  const fs::path own = cache_.path() / "own.ingot";
  fs::copy(cached, own);
  Model::open(own, o)->background_check().wait();
  bytes[last.offset + last.bytes - 1] ^= 1;
  test::write_text(own, bytes);
  test::write_text(cached, bytes);
  const auto verdict = [](const Model& model) -> std::string {
    try {
      model.background_check().wait();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput);
      EXPECT_TRUE(model.background_check().finished());
      EXPECT_THROW(model.background_check().wait(), Error);
      return e.message();
    }
    return "no damage";
  };
  EXPECT_NE(verdict(*Model::open(own, o)).find("build the engine again"), std::string::npos);
  EXPECT_TRUE(fs::exists(own));
  const auto model = Model::open(kModels / "llama", o);
  EXPECT_NE(verdict(*model).find("run again"), std::string::npos);
  EXPECT_FALSE(fs::exists(cached));
  EXPECT_EQ(verdict(*Model::open(kModels / "llama", o)), "no damage");
}

TEST_F(ModelTest, ADamagedEngineInTheCacheIsBuiltAgain) {
  const OpenOptions o = options(ComputeMode::kNative);
  const fs::path engine = Model::open(kModels / "llama", o)->file().path();
  fs::resize_file(engine, fs::file_size(engine) - 100);
  EXPECT_NO_THROW(Model::open(kModels / "llama", o));
}

}  // namespace
}  // namespace ingot
