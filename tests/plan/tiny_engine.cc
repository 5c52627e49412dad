#include "tests/plan/tiny_engine.h"

#include "plan/engine_file.h"

#include "tests/builder/edited_checkpoint.h"
#include "tests/ops/reference_device.h"
#include <cstring>
#include <nlohmann/json.hpp>

namespace ingot::test {

namespace {

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
  EngineWriter writer(path);
  write_engine(checkpoint, *device, build, model, writer);
  const EngineFile file(path);
  const auto bytes = file.blob("weights");
  weights = device->allocate(bytes.size(), "weights");
  std::memcpy(weights->data(), bytes.data(), bytes.size());
}

}  // namespace ingot::test
