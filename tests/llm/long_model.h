#pragma once

#include "tests/builder/edited_checkpoint.h"
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace ingot::test {

inline constexpr std::int64_t kLongest = 512;  // several pages of the CPU's 64 tokens

// A tiny model of the fixtures that takes kLongest tokens; mistral's layers see a window of them.
class LongModel {
 public:
  explicit LongModel(const std::filesystem::path& original) : checkpoint_(original) {
    checkpoint_.config()["max_position_embeddings"] = kLongest;
    path_ = checkpoint_.save();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  EditedCheckpoint checkpoint_;
  std::filesystem::path path_;
};

}  // namespace ingot::test
