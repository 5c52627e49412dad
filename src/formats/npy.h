#pragma once

#include "tensor/dtype.h"
#include "tensor/shape.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace ingot {

// A NumPy array file: f32, f16, i32, i64 in C order, at most Shape::kMaxRank dimensions.
struct NpyArray {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// Throws Error{kBadInput} on what is not such an array.
NpyArray parse_npy(std::span<const std::byte> bytes, const std::filesystem::path& file);
NpyArray read_npy(const std::filesystem::path& path);

// Format version 1.0, data aligned to 64 bytes. Appears under `path` only when complete. Throws
// Error{kSystem}.
void write_npy(const std::filesystem::path& path, DType dtype, const Shape& shape,
               std::span<const std::byte> bytes);

}  // namespace ingot
