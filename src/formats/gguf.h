#pragma once

#include "formats/gguf_metadata.h"
#include "formats/tensor_source.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace ingot {

struct GgufContents {
  GgufMetadata metadata;
  std::vector<SourceTensor> tensors;  // shapes outermost first: GGUF's order reversed
};

// One GGUF file (version 2 or 3, little endian) held in memory; everything returned views `bytes`.
// `file` names it in messages. Throws Error{kBadInput} on anything out of order.
GgufContents parse_gguf(std::span<const std::byte> bytes, const std::filesystem::path& file);

class GgufSource : public TensorSource {
 public:
  const GgufMetadata& metadata() const { return metadata_; }

 protected:
  using TensorSource::TensorSource;
  GgufMetadata metadata_;
};

// Opens a .gguf. Of a split model (NAME-00001-of-0000N.gguf) open the first file: the others are
// found beside it, their tensors follow in order, the metadata is the first's.
std::unique_ptr<GgufSource> open_gguf(const std::filesystem::path& path);

}  // namespace ingot
