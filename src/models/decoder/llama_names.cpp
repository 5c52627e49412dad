#include "models/decoder/llama_kind.h"

#include <array>

namespace ingot::llama_kind {

namespace {

constexpr std::array kHuggingFace = {
    NameRule{"model.embed_tokens.weight", "embed"},
    NameRule{"model.layers.{L}.input_layernorm.weight", "layers.{L}.attn_norm"},
    NameRule{"model.layers.{L}.self_attn.q_proj.weight", "layers.{L}.q"},
    NameRule{"model.layers.{L}.self_attn.k_proj.weight", "layers.{L}.k"},
    NameRule{"model.layers.{L}.self_attn.v_proj.weight", "layers.{L}.v"},
    NameRule{"model.layers.{L}.self_attn.o_proj.weight", "layers.{L}.o"},
    NameRule{"model.layers.{L}.self_attn.q_proj.bias", "layers.{L}.q.bias"},
    NameRule{"model.layers.{L}.self_attn.k_proj.bias", "layers.{L}.k.bias"},
    NameRule{"model.layers.{L}.self_attn.v_proj.bias", "layers.{L}.v.bias"},
    NameRule{"model.layers.{L}.self_attn.o_proj.bias", "layers.{L}.o.bias"},
    NameRule{"model.layers.{L}.self_attn.rotary_emb.inv_freq", ""},
    NameRule{"model.layers.{L}.post_attention_layernorm.weight", "layers.{L}.mlp_norm"},
    NameRule{"model.layers.{L}.mlp.gate_proj.weight", "layers.{L}.gate"},
    NameRule{"model.layers.{L}.mlp.up_proj.weight", "layers.{L}.up"},
    NameRule{"model.layers.{L}.mlp.down_proj.weight", "layers.{L}.down"},
    NameRule{"model.layers.{L}.mlp.gate_proj.bias", "layers.{L}.gate.bias"},
    NameRule{"model.layers.{L}.mlp.up_proj.bias", "layers.{L}.up.bias"},
    NameRule{"model.layers.{L}.mlp.down_proj.bias", "layers.{L}.down.bias"},
    NameRule{"model.norm.weight", "norm"},
    NameRule{"model.rotary_emb.inv_freq", ""},
    NameRule{"lm_head.weight", "head"},
};

constexpr std::array kMeta = {
    NameRule{"tok_embeddings.weight", "embed"},
    NameRule{"layers.{L}.attention_norm.weight", "layers.{L}.attn_norm"},
    NameRule{"layers.{L}.attention.wq.weight", "layers.{L}.q"},
    NameRule{"layers.{L}.attention.wk.weight", "layers.{L}.k"},
    NameRule{"layers.{L}.attention.wv.weight", "layers.{L}.v"},
    NameRule{"layers.{L}.attention.wo.weight", "layers.{L}.o"},
    NameRule{"layers.{L}.ffn_norm.weight", "layers.{L}.mlp_norm"},
    NameRule{"layers.{L}.feed_forward.w1.weight", "layers.{L}.gate"},
    NameRule{"layers.{L}.feed_forward.w3.weight", "layers.{L}.up"},
    NameRule{"layers.{L}.feed_forward.w2.weight", "layers.{L}.down"},
    NameRule{"norm.weight", "norm"},
    NameRule{"output.weight", "head"},
    NameRule{"rope.freqs", ""},
};

constexpr std::array kGguf = {
    NameRule{"token_embd.weight", "embed"},
    NameRule{"blk.{L}.attn_norm.weight", "layers.{L}.attn_norm"},
    NameRule{"blk.{L}.attn_q.weight", "layers.{L}.q"},
    NameRule{"blk.{L}.attn_k.weight", "layers.{L}.k"},
    NameRule{"blk.{L}.attn_v.weight", "layers.{L}.v"},
    NameRule{"blk.{L}.attn_output.weight", "layers.{L}.o"},
    NameRule{"blk.{L}.attn_q.bias", "layers.{L}.q.bias"},
    NameRule{"blk.{L}.attn_k.bias", "layers.{L}.k.bias"},
    NameRule{"blk.{L}.attn_v.bias", "layers.{L}.v.bias"},
    NameRule{"blk.{L}.attn_output.bias", "layers.{L}.o.bias"},
    NameRule{"blk.{L}.ffn_norm.weight", "layers.{L}.mlp_norm"},
    NameRule{"blk.{L}.ffn_gate.weight", "layers.{L}.gate"},
    NameRule{"blk.{L}.ffn_up.weight", "layers.{L}.up"},
    NameRule{"blk.{L}.ffn_down.weight", "layers.{L}.down"},
    NameRule{"blk.{L}.ffn_gate.bias", "layers.{L}.gate.bias"},
    NameRule{"blk.{L}.ffn_up.bias", "layers.{L}.up.bias"},
    NameRule{"blk.{L}.ffn_down.bias", "layers.{L}.down.bias"},
    NameRule{"output_norm.weight", "norm"},
    NameRule{"output.weight", "head"},
    NameRule{"rope_freqs.weight", "rope.divisors"},
};

}  // namespace

std::span<const NameRule> names(Dialect dialect) {
  switch (dialect) {
    case Dialect::kHuggingFace:
      return kHuggingFace;
    case Dialect::kMeta:
      return kMeta;
    case Dialect::kGguf:
      return kGguf;
  }
  return {};
}

}  // namespace ingot::llama_kind
