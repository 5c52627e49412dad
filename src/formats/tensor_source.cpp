#include "formats/tensor_source.h"

#include "base/check.h"
#include "base/error.h"

#include <cstring>

namespace ingot {

const WeightFormat& require_format(const SourceTensor& tensor) {
  if (!tensor.format)
    fail(ErrorCode::kBadInput,
         "[checkpoint.dtype] {}: tensor {} is {} {}, which cannot be used as a weight as it stands",
         tensor.file.string(), tensor.name, tensor.dtype, to_string(tensor.shape));
  return *tensor.format;
}

std::span<const std::byte> contiguous_bytes(const SourceTensor& tensor,
                                            std::vector<std::byte>& scratch) {
  if (tensor.parts.empty()) return tensor.bytes;
  std::int64_t outer = 1;
  for (int axis = 0; axis < tensor.part_axis; ++axis) outer *= tensor.shape[axis];
  check(outer > 0, "a tensor in parts has elements");
  std::size_t total = 0;
  for (const auto& part : tensor.parts) total += part.size();
  scratch.resize(total);
  std::byte* out = scratch.data();
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const auto& part : tensor.parts) {
      const std::size_t run = part.size() / static_cast<std::size_t>(outer);
      std::memcpy(out, part.data() + static_cast<std::size_t>(i) * run, run);
      out += run;
    }
  }
  return scratch;
}

const SourceTensor* TensorSource::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const SourceTensor& TensorSource::require(std::string_view name) const {
  if (const SourceTensor* tensor = find(name)) return *tensor;
  fail(ErrorCode::kBadInput, "[checkpoint.tensor] {}: tensor {} is missing ({} others are there)",
       path_.string(), name, tensors_.size());
}

void TensorSource::set_tensors(std::vector<SourceTensor> tensors) {
  tensors_ = std::move(tensors);
  index_.clear();
  index_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto [it, added] = index_.emplace(tensors_[i].name, i);
    if (!added)
      fail(ErrorCode::kBadInput, "[checkpoint.tensor] tensor {} is in {} and again in {}",
           tensors_[i].name, tensors_[it->second].file.string(), tensors_[i].file.string());
  }
}

namespace {

// The tensor of `shard` that continues `first`, which is cut along `axis`.
const SourceTensor& matching(const TensorSource& shard, const SourceTensor& first, int axis) {
  const SourceTensor& other = shard.require(first.name);
  bool same = other.dtype == first.dtype && other.shape.rank() == first.shape.rank();
  for (int i = 0; same && i < first.shape.rank(); ++i)
    same = i == axis || other.shape[i] == first.shape[i];
  if (!same)
    fail(ErrorCode::kBadInput, "[checkpoint.shards] tensor {} is {} {} in {} but {} {} in {}",
         first.name, first.dtype, to_string(first.shape), first.file.string(), other.dtype,
         to_string(other.shape), other.file.string());
  return other;
}

SourceTensor join(const std::vector<std::unique_ptr<TensorSource>>& shards,
                  const SourceTensor& first, int axis) {
  SourceTensor joined = first;
  if (axis < 0) {
    for (const auto& shard : shards) matching(*shard, first, -1);
    return joined;
  }
  check(axis < first.shape.rank(), "shards are joined along an axis they have");
  joined.bytes = {};
  joined.parts.clear();
  joined.part_axis = axis;
  joined.shape[axis] = 0;
  for (const auto& shard : shards) {
    const SourceTensor& part = matching(*shard, first, axis);
    if (part.bytes.empty())
      fail(ErrorCode::kBadInput, "[checkpoint.shards] {}: tensor {} {} has no elements to join",
           part.file.string(), part.name, to_string(part.shape));
    if (__builtin_add_overflow(joined.shape[axis], part.shape[axis], &joined.shape[axis]))
      fail(ErrorCode::kBadInput, "[checkpoint.shards] {}: tensor {} is larger than memory",
           part.file.string(), part.name);
    joined.parts.push_back(part.bytes);
  }
  return joined;
}

}  // namespace

ShardedSource::ShardedSource(std::vector<std::unique_ptr<TensorSource>> shards,
                             const AxisOf& axis_of)
    : TensorSource(shards.empty() ? std::filesystem::path() : shards.front()->path()),
      shards_(std::move(shards)) {
  check(!shards_.empty(), "a sharded source has shards");
  std::vector<SourceTensor> tensors;
  for (const SourceTensor& first : shards_.front()->tensors())
    tensors.push_back(join(shards_, first, shards_.size() == 1 ? -1 : axis_of(first)));
  // A tensor that only a later shard has would be lost silently.
  for (const auto& shard : shards_)
    for (const SourceTensor& tensor : shard->tensors()) shards_.front()->require(tensor.name);
  set_tensors(std::move(tensors));
}

}  // namespace ingot
