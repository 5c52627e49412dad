#pragma once

#include "formats/tensor_source.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

// A checkpoint in several files, its shards, and an index that says which of them holds a tensor:
// {"weight_map": {tensor: file name}}, as Hugging Face's libraries write it.
namespace ingot {

// How a format names the one file of a whole checkpoint and the index of a sharded one.
struct ShardNames {
  std::string_view whole;
  std::string_view index;
};

// What a folder's checkpoint is read from: the whole file, or the index and the shards that it
// names, there or not. Empty where neither is there. Throws Error{kBadInput} for a broken index.
std::vector<std::filesystem::path> shard_files(const std::filesystem::path& folder,
                                               const ShardNames& names);

using OpenShard = std::unique_ptr<TensorSource> (*)(const std::filesystem::path& file);

// All shards as one source. Index and shards must agree: every tensor named is in the file named,
// and no file holds one that the index does not place there. Throws Error{kBadInput}.
std::unique_ptr<TensorSource> open_shards(const std::filesystem::path& index, OpenShard open);

}  // namespace ingot
