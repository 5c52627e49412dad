#pragma once

#include "formats/tensor_source.h"

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace ingot {

struct TorchContents {
  std::vector<SourceTensor> tensors;
  std::deque<std::vector<std::byte>> copies;  // of tensors that were not stored row-major
};

// One file of torch.save (zip form, little endian) that holds a dict of tensors: Meta's
// consolidated.NN.pth, pytorch_model.bin. The pickle is read as data and never executed; a global
// outside the short list is refused by name. Views `bytes` except for tensors with odd strides,
// which are copied. Dict values that are no tensors are left out. Throws Error{kBadInput}.
TorchContents parse_torch_pth(std::span<const std::byte> bytes, const std::filesystem::path& file);

std::unique_ptr<TensorSource> open_torch_pth(const std::filesystem::path& path);

// A folder's pytorch_model.bin, or the shards that pytorch_model.bin.index.json names. Index and
// shards must agree, as for safetensors.
std::unique_ptr<TensorSource> open_torch_folder(const std::filesystem::path& folder);

// What open_torch_folder reads, as safetensors_files says it.
std::vector<std::filesystem::path> torch_files(const std::filesystem::path& folder);

}  // namespace ingot
