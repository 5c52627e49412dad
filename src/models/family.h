#pragma once

#include "formats/gguf_metadata.h"
#include "formats/hf_config.h"
#include "formats/tensor_source.h"
#include "ir/graph.h"
#include "models/decoder/config.h"
#include "nn/builder.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// A slot that the graph reads: what must be in the checkpoint under some name.
struct SlotSpec {
  std::string name;
  Shape shape;
  Presence presence = Presence::kRequired;
};

// Which name of a checkpoint fills which slot. "{L}" stands for a layer's number in both.
struct NameRule {
  std::string_view source;
  std::string_view slot;  // "": known and not needed
};

enum class Dialect : std::uint8_t { kHuggingFace, kMeta, kGguf };

// One family of models: a file in models/ defines each; the stem is the name. It names no rank,
// stream or backend.
struct Family {
  std::string_view name;
  std::vector<std::string_view> architectures;       // of config.json
  std::vector<std::string_view> gguf_architectures;  // general.architecture
  bool meta = false;                                 // answers for params.json folders

  DecoderConfig (*from_hf)(const HfConfig& config);
  DecoderConfig (*from_gguf)(const GgufMetadata& metadata);
  DecoderConfig (*from_meta)(const HfConfig& params, const TensorSource& tensors) = nullptr;
  std::span<const NameRule> (*names)(Dialect dialect);
  std::vector<SlotSpec> (*slots)(const DecoderConfig& config);
  Graph (*build)(const DecoderConfig& config, const nn::BuilderOptions& options,
                 const nn::SlotTypes& slots, const RopeTables& rope);
};

// A token id as configurations write it, -1 for none. Throws Error{kBadInput} for what is no id.
std::int32_t token_id(const HfConfig& config, std::string_view key, std::int64_t id);

std::span<const Family* const> all_families();
// Throw Error{kBadInput} that lists what is known.
const Family& family_for_architecture(std::string_view architecture);
const Family& family_for_gguf(std::string_view architecture);
const Family& family_for_meta();

}  // namespace ingot
