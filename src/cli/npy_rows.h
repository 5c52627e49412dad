#pragma once

#include "base/file.h"

#include <cstdint>
#include <filesystem>
#include <span>

namespace ingot::cli {

// A float32 NumPy file [rows, columns] written as its rows come: it may be larger than memory.
class NpyRows {
 public:
  NpyRows(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns);
  void append(std::span<const float> values) { file_.write(std::as_bytes(values)); }
  // Appears under its name; every row must have come.
  void commit();

 private:
  AtomicFile file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace ingot::cli
