#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reason.h"
#include "formats/torch_pth.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

namespace ingot {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWhole = "pytorch_model.bin";
constexpr const char* kIndex = "pytorch_model.bin.index.json";

// Several files that each hold some of the tensors.
class UnionSource : public TensorSource {
 public:
  UnionSource(const fs::path& path, std::vector<std::unique_ptr<TensorSource>> sources)
      : TensorSource(path), sources_(std::move(sources)) {
    std::vector<SourceTensor> all;
    for (const auto& source : sources_)
      all.insert(all.end(), source->tensors().begin(), source->tensors().end());
    set_tensors(std::move(all));
  }

 private:
  std::vector<std::unique_ptr<TensorSource>> sources_;
};

// Tensor to file. File names stay inside the folder.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const Json json = parse_json(read_file(path), path.string());
  std::map<std::string, std::string> files;
  try {
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      const auto name = file.get<std::string>();
      if (name.empty() || fs::path(name).filename() != name)
        fail(ErrorCode::kBadInput, "[torch.index] {}: {} is placed in {}, which is no file name",
             path.string(), tensor, name);
      files[tensor] = name;
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kBadInput, "[torch.index] {}: {}", path.string(), json_reason(e));
  }
  return files;
}

}  // namespace

std::vector<fs::path> torch_files(const fs::path& folder) {
  if (fs::exists(folder / kWhole)) return {folder / kWhole};
  if (!fs::exists(folder / kIndex)) return {};
  std::set<std::string> names;
  for (const auto& [tensor, name] : read_index(folder / kIndex)) names.insert(name);
  std::vector<fs::path> files = {folder / kIndex};
  for (const std::string& name : names) files.push_back(folder / name);
  return files;
}

std::unique_ptr<TensorSource> open_torch_folder(const fs::path& folder) {
  if (fs::exists(folder / kWhole)) return open_torch_pth(folder / kWhole);
  const fs::path index = folder / kIndex;
  const std::map<std::string, std::string> placed = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : placed) names.insert(file);
  std::vector<std::unique_ptr<TensorSource>> sources;
  for (const std::string& name : names) {
    if (!fs::exists(folder / name))
      fail(ErrorCode::kBadInput, "[torch.index] {}: names {}, which is not there", index.string(),
           name);
    sources.push_back(open_torch_pth(folder / name));
    for (const SourceTensor& tensor : sources.back()->tensors()) {
      const auto it = placed.find(tensor.name);
      if (it == placed.end() || it->second != name)
        fail(ErrorCode::kBadInput,
             "[torch.index] {}: {} holds {}, which the index does not place there", index.string(),
             name, tensor.name);
    }
  }
  auto all = std::make_unique<UnionSource>(folder, std::move(sources));
  for (const auto& [tensor, file] : placed)
    if (!all->find(tensor))
      fail(ErrorCode::kBadInput, "[torch.index] {}: {} is not in {}", index.string(), tensor, file);
  return all;
}

}  // namespace ingot
