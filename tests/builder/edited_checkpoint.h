#pragma once

#include "base/json.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::test {

// A folder of the test's own, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A cache of engines of the test's own, gone with it; then the one from before counts again.
class OwnCache {
 public:
  OwnCache();
  ~OwnCache();
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::optional<std::string> before_;
};

struct StoredTensor {
  std::string dtype;  // the format's own word: "F32"
  std::vector<std::int64_t> shape;
  std::string bytes;

  static StoredTensor floats(std::vector<std::int64_t> shape, const std::vector<float>& values);
  std::vector<float> as_floats() const;
};
using StoredTensors = std::map<std::string, StoredTensor>;

StoredTensors read_tensors(const std::filesystem::path& safetensors);
void write_tensors(const std::filesystem::path& safetensors, const StoredTensors& tensors);
void write_text(const std::filesystem::path& path, std::string_view text);

// A copy of a folder with config.json and model.safetensors, to be changed and saved.
class EditedCheckpoint {
 public:
  explicit EditedCheckpoint(const std::filesystem::path& original);
  ~EditedCheckpoint();

  Json& config() { return *config_; }
  StoredTensors tensors;
  std::filesystem::path file(std::string_view name) const { return folder_.path() / name; }
  // Writes both; returns the folder.
  std::filesystem::path save();

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Json> config_;
};

}  // namespace ingot::test
