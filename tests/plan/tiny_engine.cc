#include "tests/plan/tiny_engine.h"

#include "base/error.h"
#include "plan/engine_file.h"

#include "tests/builder/edited_checkpoint.h"
#include "tests/ops/reference_device.h"
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace ingot::test {

namespace {

constexpr std::int64_t kPages = 4;

Checkpoint tiny_checkpoint(EditedCheckpoint& edited) {
  edited.config()["num_hidden_layers"] = 1;
  edited.config()["vocab_size"] = TinyEngine::kVocab;
  std::erase_if(edited.tensors,
                [](const auto& t) { return t.first.find("layers.1.") != std::string::npos; });
  for (auto& [name, tensor] : edited.tensors) {
    if (name.find("embed_tokens") == std::string::npos && name.find("lm_head") == std::string::npos)
      continue;
    const std::size_t row = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
    tensor.shape[0] = TinyEngine::kVocab;
    tensor.bytes.resize(row * static_cast<std::size_t>(TinyEngine::kVocab));
  }
  return open_checkpoint(edited.save());
}

}  // namespace

TinyEngine::TinyEngine(const std::filesystem::path& fixtures) : TinyEngine(fixtures, Options{}) {}

TinyEngine::TinyEngine(const std::filesystem::path& fixtures, Options options)
    : device(options.device ? std::move(options.device) : make_reference_device()) {
  EditedCheckpoint edited(fixtures / "models" / "llama");
  const TemporaryFolder folder;
  const Checkpoint checkpoint = tiny_checkpoint(edited);
  const BuildOptions build{.mode = options.mode,
                           .max_batch = 2,
                           .max_tokens = 8,
                           .skip_passes = std::move(options.skip_passes),
                           .progress = {}};
  model = compile_checkpoint(checkpoint, *device, build);
  const std::filesystem::path path =
      options.keep.empty() ? folder.path() / "tiny.ingot" : options.keep;
  write_engine(checkpoint, *device, build, model, path);
  const EngineFile file(path);
  const auto bytes = file.blob("weights");
  weights = device->allocate(bytes.size(), "weights");
  std::memcpy(weights->data(), bytes.data(), bytes.size());
}

Batch small_step(std::int64_t page_tokens) {
  const auto page = static_cast<std::int32_t>(page_tokens);
  return {.ids = {static_cast<std::int32_t>(TinyEngine::kVocab) - 1, 0, 5},
          .positions = {0, 1, 0},
          .slots = {3 * page, 3 * page + 1, 2 * page},
          .rope_row = {0, 0, 0},
          .query_start = {0, 2, 3},
          .context_len = {2, 1},
          .block_table = {3, 2},
          .pages = 1,
          .rows = {0, 1, 2}};
}

std::vector<float> run_small_step(const Plan& plan, Device& device,
                                  std::span<const std::byte> weights) {
  constexpr std::uint64_t kMuch = 16 << 20;
  PreparedKernels kernels = prepare_kernels(plan, device, {});
  if (memory_needs(plan, device).page > kMuch / kPages ||
      std::max(plan.arena_bytes, kernels.workspace_bytes) > kMuch)
    fail(ErrorCode::kDoesNotFit, "[test.memory] a plan larger than tests allow");
  Executor executor(plan, device, weights, std::move(kernels),
                    {.kv_pages = kPages, .progress = {}});
  std::vector<float> logits;
  executor.run(small_step(plan.page_tokens),
               [&](std::int64_t, std::int64_t, std::span<const float> rows) {
                 logits.insert(logits.end(), rows.begin(), rows.end());
               });
  return logits;
}

}  // namespace ingot::test
