#include "base/check.h"
#include "models/decoder/llama_kind.h"
#include "nn/layers.h"

namespace ingot::llama_kind {

Graph build(const DecoderConfig& c, const nn::BuilderOptions& options,
            const nn::SlotTypes& slot_types, const RopeTables& rope) {
  nn::Builder b(c.family, options, slot_types);
  check(c.windows.size() == static_cast<std::size_t>(c.layers), "a window for every layer");
  ValueId x = nn::embed(b, "embed");  // [tokens, hidden]
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const std::string at = "layers." + std::to_string(l) + ".";
    ValueId h = nn::rms_norm(b, x, at + "attn_norm", c.rms_eps);
    const ValueId q = nn::linear(b, h, at + "q");  // [tokens, heads * head_dim]
    const ValueId k = nn::linear(b, h, at + "k");  // [tokens, kv_heads * head_dim]
    const ValueId v = nn::linear(b, h, at + "v");
    h = nn::attention(b, q, k, v,
                      {.layer = "kv." + std::to_string(l),
                       .heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .head_dim = c.head_dim,
                       .window = c.windows[static_cast<std::size_t>(l)],
                       .sink_tokens = c.sink_tokens,
                       .rotary_dim = c.rope.rotary_dim,
                       .rope_interleaved = c.rope.interleaved,
                       .rope_scale = rope.scale});
    x = nn::add(b, x, nn::linear(b, h, at + "o"));
    h = nn::rms_norm(b, x, at + "mlp_norm", c.rms_eps);
    h = nn::swiglu(b, nn::linear(b, h, at + "gate"),
                   nn::linear(b, h, at + "up"));  // [tokens, intermediate]
    x = nn::add(b, x, nn::linear(b, h, at + "down"));
  }
  x = nn::rms_norm(b, x, "norm", c.rms_eps);
  const ValueId logits = nn::lm_head(b, x, b.has_slot("head") ? "head" : "embed");
  return std::move(b).finish(logits);
}

std::vector<SlotSpec> slots(const DecoderConfig& c) {
  std::vector<SlotSpec> specs;
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns,
                          Presence bias) {
    specs.push_back({name, Shape{rows, columns}, Presence::kRequired});
    if (bias != Presence::kAbsent) specs.push_back({name + ".bias", Shape{rows}, bias});
  };
  const auto vector = [&](const std::string& name, std::int64_t size) {
    specs.push_back({name, Shape{size}});
  };
  matrix("embed", c.vocab, c.hidden, Presence::kAbsent);
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const std::string at = "layers." + std::to_string(l) + ".";
    vector(at + "attn_norm", c.hidden);
    matrix(at + "q", c.heads * c.head_dim, c.hidden, c.qkv_bias);
    matrix(at + "k", c.kv_heads * c.head_dim, c.hidden, c.qkv_bias);
    matrix(at + "v", c.kv_heads * c.head_dim, c.hidden, c.qkv_bias);
    matrix(at + "o", c.hidden, c.heads * c.head_dim, c.o_bias);
    vector(at + "mlp_norm", c.hidden);
    matrix(at + "gate", c.intermediate, c.hidden, c.mlp_bias);
    matrix(at + "up", c.intermediate, c.hidden, c.mlp_bias);
    matrix(at + "down", c.hidden, c.intermediate, c.mlp_bias);
  }
  vector("norm", c.hidden);
  if (!c.tied.has_value()) specs.push_back({"head", Shape{c.vocab, c.hidden}, Presence::kAsFound});
  if (c.tied.has_value() && !*c.tied)
    specs.push_back({"head", Shape{c.vocab, c.hidden}, Presence::kRequired});
  return specs;
}

}  // namespace ingot::llama_kind
