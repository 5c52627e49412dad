#pragma once

#include "formats/tensor_source.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace ingot {

// The tensors of one safetensors file held in memory. `file` names it in messages and in the
// tensors. Throws Error{kBadInput} unless the header is whole, every range lies in the file and the
// ranges cover the data exactly: no hole, no overlap, nothing behind the last.
std::vector<SourceTensor> parse_safetensors(std::span<const std::byte> bytes,
                                            const std::filesystem::path& file);

// Opens a .safetensors file, a model.safetensors.index.json, or a folder that has model.safetensors
// or the index (in this order). With an index, files and index must agree: every tensor named is
// in the file named, and no file holds one that the index does not place there.
std::unique_ptr<TensorSource> open_safetensors(const std::filesystem::path& path);

// What open_safetensors reads of a folder: model.safetensors, or the index and the files that it
// names, there or not. Empty where neither is there. Throws Error{kBadInput} for a broken index.
std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& folder);

}  // namespace ingot
