#include "tests/builder/edited_checkpoint.h"

#include "base/file.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ingot::test {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> counter{0};
  path_ = fs::temp_directory_path() /
          ("ingot_test." + std::to_string(getpid()) + "." + std::to_string(counter.fetch_add(1)));
  fs::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

OwnCache::OwnCache() {
  if (const char* before = std::getenv("INGOT_CACHE")) before_ = before;
  ::setenv("INGOT_CACHE", folder_.path().c_str(), 1);
}

OwnCache::~OwnCache() {
  if (before_)
    ::setenv("INGOT_CACHE", before_->c_str(), 1);
  else
    ::unsetenv("INGOT_CACHE");
}

StoredTensor StoredTensor::floats(std::vector<std::int64_t> shape,
                                  const std::vector<float>& values) {
  StoredTensor t{.dtype = "F32", .shape = std::move(shape), .bytes = {}};
  t.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return t;
}

std::vector<float> StoredTensor::as_floats() const {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

StoredTensors read_tensors(const fs::path& path) {
  const std::string file = read_file(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const Json header = parse_json(std::string_view(file).substr(8, header_bytes), "header");
  StoredTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto range = entry.at("data_offsets").get<std::vector<std::size_t>>();
    tensors[name] = {.dtype = entry.at("dtype").get<std::string>(),
                     .shape = entry.at("shape").get<std::vector<std::int64_t>>(),
                     .bytes = file.substr(8 + header_bytes + range[0], range[1] - range[0])};
  }
  return tensors;
}

void write_tensors(const fs::path& path, const StoredTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, t] : tensors) {
    header[name] = {{"dtype", t.dtype},
                    {"shape", t.shape},
                    {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t bytes = text.size();
  std::string file(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  write_text(path, file + text + data);
}

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

EditedCheckpoint::EditedCheckpoint(const fs::path& original)
    : config_(
          std::make_unique<Json>(parse_json(read_file(original / "config.json"), "config.json"))) {
  for (const auto& entry : fs::directory_iterator(original))
    if (entry.path().extension() == ".json") fs::copy(entry.path(), folder_.path());
  tensors = read_tensors(original / "model.safetensors");
}

EditedCheckpoint::~EditedCheckpoint() = default;

fs::path EditedCheckpoint::save() {
  write_text(file("config.json"), config_->dump());
  write_tensors(file("model.safetensors"), tensors);
  return folder_.path();
}

}  // namespace ingot::test
