#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ingot {

// The files that a checkpoint is read from, sorted, those that are there: a .gguf itself; of a
// folder its configuration, its text side and its weights, and nothing else that lies in it. Reads
// an index of weights, no tensor. Throws Error{kBadInput} for an index that is none.
std::vector<std::filesystem::path> checkpoint_files(const std::filesystem::path& path);

// Meta's consolidated.*.pth in `folder`, sorted.
std::vector<std::filesystem::path> meta_shards(const std::filesystem::path& folder);

// Whether a Hugging Face folder's weights are read as pytorch_model.bin: only where there are no
// safetensors.
bool has_torch_weights_only(const std::filesystem::path& folder);

// Hash of what determines an engine's contents as far as the checkpoint goes: names, sizes and
// times of checkpoint_files.
std::string checkpoint_identity(const std::filesystem::path& path);

}  // namespace ingot
