#include "builder/checkpoint_files.h"

#include "base/file.h"
#include "base/hash.h"
#include "formats/safetensors.h"
#include "formats/torch_pth.h"

#include <fmt/core.h>

#include <algorithm>

namespace ingot {

namespace fs = std::filesystem;

namespace {

// What checkpoint.cpp and checkpoint_text.cpp read beside the weights.
constexpr const char* kNamed[] = {
    "config.json",     "params.json",         "tokenizer_config.json", "tokenizer.json",
    "tokenizer.model", "chat_template.jinja", "generation_config.json"};

}  // namespace

std::vector<fs::path> meta_shards(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("consolidated.") && name.ends_with(".pth")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool has_torch_weights_only(const fs::path& folder) {
  return safetensors_files(folder).empty() && !torch_files(folder).empty();
}

std::vector<fs::path> checkpoint_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {MappedFile(path).path()};  // what is no file has no size
  std::vector<fs::path> files;
  for (const char* name : kNamed) files.push_back(path / name);
  const std::vector<fs::path> weights = !fs::exists(path / "config.json") ? meta_shards(path)
                                        : has_torch_weights_only(path)    ? torch_files(path)
                                                                          : safetensors_files(path);
  files.insert(files.end(), weights.begin(), weights.end());
  std::erase_if(files, [](const fs::path& file) { return !fs::is_regular_file(file); });
  std::sort(files.begin(), files.end());
  return files;
}

std::string checkpoint_identity(const fs::path& path) {
  std::string text = fs::weakly_canonical(path).string();
  for (const fs::path& file : checkpoint_files(path))
    text += fmt::format("\n{} {} {}", file.filename().string(), fs::file_size(file),
                        fs::last_write_time(file).time_since_epoch().count());
  return hash128_hex(text);
}

}  // namespace ingot
