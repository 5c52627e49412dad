#pragma once

#include "models/family.h"

#include <span>
#include <vector>

// What families of the Llama kind share: RMSNorm before attention and before a SwiGLU MLP, rotary
// positions, grouped queries. Names of slots: embed,
// layers.N.{attn_norm,q,k,v,o,mlp_norm,gate,up,down}, norm, head, each with ".bias".
namespace ingot::llama_kind {

// The keys of config.json that all of them write; families add their own.
DecoderConfig config_from_hf(const HfConfig& config);
// Reads rope_scaling or rope_parameters.
RopeConfig rope_from_hf(const HfConfig& config, const DecoderConfig& decoder);
DecoderConfig config_from_gguf(const GgufMetadata& metadata);
DecoderConfig config_from_meta(const HfConfig& params, const TensorSource& tensors);

std::span<const NameRule> names(Dialect dialect);
std::vector<SlotSpec> slots(const DecoderConfig& config);
Graph build(const DecoderConfig& config, const nn::BuilderOptions& options,
            const nn::SlotTypes& slots, const RopeTables& rope);

}  // namespace ingot::llama_kind
