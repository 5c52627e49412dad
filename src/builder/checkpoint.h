#pragma once

#include "formats/tensor_source.h"
#include "models/family.h"
#include "plan/engine_info.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// A checkpoint, opened: configuration understood, every tensor matched with a slot or refused by
// name, every slot filled once. Nothing is read but headers.
struct Checkpoint {
  const Family* family = nullptr;
  DecoderConfig config;
  std::unique_ptr<TensorSource> source;
  std::map<std::string, const SourceTensor*, std::less<>> slots;
  std::string name;             // of the model, for people
  std::string tokenizer_image;  // Tokenizer::serialize(); "" when the checkpoint has none
  std::string chat_template;    // Jinja source; "" when there is none
  GenerationDefaults generation;
  std::vector<std::int32_t> end_ids;  // from every place that declares one
  std::vector<std::string> notices;   // tensors that are not needed, and the like
  std::string identity;               // checkpoint_identity()
};

enum class CheckpointKind { kHuggingFace, kMeta, kGguf };
// What `path` is. Throws Error{kBadInput} that says what was looked for; kSystem when it is not
// there.
CheckpointKind checkpoint_kind(const std::filesystem::path& path);

// Throws Error{kBadInput} naming file, tensor or key.
Checkpoint open_checkpoint(const std::filesystem::path& path);

// A checkpoint of the shape that a config.json describes, without its weights: the source makes
// random values in `format` (any that can be quantised to), the same for the same shape. For
// benchmarks.
Checkpoint random_checkpoint(const std::filesystem::path& config_json, std::string_view format);

}  // namespace ingot
