#include "models/decoder/llama_kind.h"
#include "models/family.h"

// Llama 1 to 3.2 (Touvron et al., 2023; Llama team, 2024) and what differs from it by configuration
// only: Mistral with its window, SmolLM and SmolLM2.
namespace ingot {

namespace {

DecoderConfig from_hf(const HfConfig& config) {
  DecoderConfig c = llama_kind::config_from_hf(config);
  if (config.find_boolean("attention_bias").value_or(false))
    c.qkv_bias = c.o_bias = Presence::kRequired;
  if (config.find_boolean("mlp_bias").value_or(false)) c.mlp_bias = Presence::kRequired;
  c.rope.interleaved = config.find_boolean("rope_interleaved").value_or(false);
  // Mistral: the same window in every layer; null in later releases.
  if (const auto window = config.find_integer("sliding_window")) {
    if (*window < 1) config.refuse("sliding_window", "must be positive");
    c.windows.assign(c.windows.size(), *window);
  }
  return c;
}

// GGUF files of this architecture hold q and k with rows permuted for interleaved pairs.
DecoderConfig from_gguf(const GgufMetadata& metadata) {
  DecoderConfig c = llama_kind::config_from_gguf(metadata);
  c.rope.interleaved = true;
  return c;
}

}  // namespace

extern const Family kFamily_llama;
const Family kFamily_llama = {
    .name = "llama",
    .architectures = {"LlamaForCausalLM", "MistralForCausalLM"},
    .gguf_architectures = {"llama"},
    .meta = true,
    .from_hf = from_hf,
    .from_gguf = from_gguf,
    .from_meta = llama_kind::config_from_meta,
    .names = llama_kind::names,
    .slots = llama_kind::slots,
    .build = llama_kind::build,
};

}  // namespace ingot
