#include "formats/shards.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace ingot {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxIndexBytes = 100'000'000;

using WeightMap = std::map<std::string, std::string>;  // tensor to file name

bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// File names stay inside the folder.
WeightMap read_index(const fs::path& index) {
  const Json json = parse_json(read_file(index, kMaxIndexBytes), index.string(), {.max_depth = 16});
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object() || found->empty())
    fail(ErrorCode::kBadInput, "[shards.index] {}: no weight_map in it", index.string());
  WeightMap weight_map;
  for (const auto& [tensor, file] : found->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (!is_file_name(name))
      fail(ErrorCode::kBadInput,
           "[shards.index] {}: tensor {} is in {}, which is no plain file name", index.string(),
           tensor, dump_json(file));
    weight_map.emplace(tensor, name);
  }
  return weight_map;
}

class IndexedSource : public TensorSource {
 public:
  IndexedSource(const fs::path& index, OpenShard open) : TensorSource(index) {
    const WeightMap weight_map = read_index(index);
    std::map<std::string, std::string> first_use;  // file name to a tensor that needs it
    for (const auto& [tensor, file] : weight_map) first_use.emplace(file, tensor);
    std::vector<SourceTensor> all;
    for (const auto& [name, tensor] : first_use) {
      const fs::path file = index.parent_path() / name;
      if (!fs::exists(file))
        fail(ErrorCode::kBadInput, "[shards.index] {}: {} is not there, tensor {} is in it",
             index.string(), name, tensor);
      shards_.push_back(open(file));
      for (const SourceTensor& held : shards_.back()->tensors()) {
        const auto it = weight_map.find(held.name);
        if (it == weight_map.end() || it->second != name)
          fail(ErrorCode::kBadInput, "[shards.index] {}: {} holds tensor {}, which the index {}",
               index.string(), name, held.name,
               it == weight_map.end() ? "does not list" : "places in " + it->second);
        all.push_back(held);
      }
    }
    set_tensors(std::move(all));
    for (const auto& [tensor, file] : weight_map)
      if (!find(tensor))
        fail(ErrorCode::kBadInput,
             "[shards.index] {}: tensor {} is not in {}, where the index places it", index.string(),
             tensor, file);
  }

 private:
  std::vector<std::unique_ptr<TensorSource>> shards_;
};

}  // namespace

std::vector<fs::path> shard_files(const fs::path& folder, const ShardNames& names) {
  if (fs::exists(folder / names.whole)) return {folder / names.whole};
  const fs::path index = folder / names.index;
  if (!fs::exists(index)) return {};
  std::set<std::string> shards;
  for (const auto& [tensor, name] : read_index(index)) shards.insert(name);
  std::vector<fs::path> files = {index};
  for (const std::string& name : shards) files.push_back(folder / name);
  return files;
}

std::unique_ptr<TensorSource> open_shards(const fs::path& index, OpenShard open) {
  return std::make_unique<IndexedSource>(index, open);
}

}  // namespace ingot
