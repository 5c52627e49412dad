#include "models/decoder/llama_kind.h"
#include "models/family.h"

// Qwen 1.5, 2 and 2.5 (Yang et al., 2024): Llama's shape with biases on q, k and v, and a window in
// the upper layers.
namespace ingot {

namespace {

DecoderConfig from_hf(const HfConfig& config) {
  DecoderConfig c = llama_kind::config_from_hf(config);
  c.qkv_bias = Presence::kRequired;
  if (config.find_boolean("use_sliding_window").value_or(false)) {
    const std::int64_t window = config.integer("sliding_window");
    const std::int64_t first = config.find_integer("max_window_layers").value_or(0);
    if (window < 1) config.refuse("sliding_window", "must be positive");
    for (std::size_t l = 0; l < c.windows.size(); ++l)
      if (static_cast<std::int64_t>(l) >= first) c.windows[l] = window;
  }
  return c;
}

}  // namespace

extern const Family kFamily_qwen2;
const Family kFamily_qwen2 = {
    .name = "qwen2",
    .architectures = {"Qwen2ForCausalLM"},
    .gguf_architectures = {"qwen2"},
    .from_hf = from_hf,
    .from_gguf = llama_kind::config_from_gguf,
    .names = llama_kind::names,
    .slots = llama_kind::slots,
    .build = llama_kind::build,
};

}  // namespace ingot
