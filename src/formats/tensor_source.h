#pragma once

#include "quant/weight_format.h"
#include "tensor/shape.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ingot {

// One tensor as a checkpoint stores it. Views into the source's mapping: valid while it lives.
struct SourceTensor {
  std::string name;
  // How the values are stored; null when Ingot cannot compute with them (integers, bool, float8
  // whose scales are elsewhere, block types without a reader). Such a tensor is harmless until
  // used: require_format refuses it by name.
  const WeightFormat* format = nullptr;
  std::string dtype;  // the file's own word: "BF16", "Q4_K", "I64"
  Shape shape;        // outermost first; the last axis is contiguous
  // Row-major values. Empty for a tensor in `parts`, and for one without elements.
  std::span<const std::byte> bytes;
  // Pieces that make up the tensor, in order along `part_axis` (a model-parallel checkpoint).
  std::vector<std::span<const std::byte>> parts;
  int part_axis = 0;
  std::filesystem::path file;
};

// Throws Error{kBadInput} naming file, tensor and dtype when it has no weight format.
const WeightFormat& require_format(const SourceTensor& tensor);

// The whole tensor in row-major order: `bytes` itself, or `scratch` filled from the parts.
std::span<const std::byte> contiguous_bytes(const SourceTensor& tensor,
                                            std::vector<std::byte>& scratch);

// The tensors of a checkpoint, whatever its files are. Opening reads headers only.
class TensorSource {
 public:
  TensorSource() = default;
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  // In the order of the files.
  std::span<const SourceTensor> tensors() const { return tensors_; }
  const SourceTensor* find(std::string_view name) const;
  // Throws Error{kBadInput} that names the tensor and the place searched.
  const SourceTensor& require(std::string_view name) const;
  // The file or folder that was opened, for messages.
  const std::filesystem::path& path() const { return path_; }

 protected:
  explicit TensorSource(std::filesystem::path path) : path_(std::move(path)) {}
  // Takes over the list; throws Error{kBadInput} on a name that occurs twice.
  void set_tensors(std::vector<SourceTensor> tensors);

 private:
  std::filesystem::path path_;
  std::vector<SourceTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;  // keys live in tensors_
};

// Joins model-parallel shards of plain (unblocked) tensors without copying.
class ShardedSource : public TensorSource {
 public:
  // Given a tensor of the first shard: the axis along which shards are concatenated, or -1 where
  // every shard holds the same values and the first is taken.
  using AxisOf = std::function<int(const SourceTensor&)>;

  // Throws Error{kBadInput} when a shard lacks a tensor or disagrees in dtype or other axes.
  ShardedSource(std::vector<std::unique_ptr<TensorSource>> shards, const AxisOf& axis_of);

 private:
  std::vector<std::unique_ptr<TensorSource>> shards_;
};

}  // namespace ingot
