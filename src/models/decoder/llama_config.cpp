#include "base/error.h"
#include "models/decoder/llama_kind.h"

#include <algorithm>
#include <cmath>

namespace ingot::llama_kind {

namespace {

// Sizes come from an untrusted file and are multiplied later: bounded here, once.
std::int64_t bounded(const HfConfig& config, std::string_view key, std::int64_t value) {
  if (value < 1 || value > (std::int64_t{1} << 28))
    config.refuse(key, fmt::format("{} is no sensible size", value));
  return value;
}

std::int64_t size_of(const HfConfig& config, std::string_view key) {
  return bounded(config, key, config.integer(key));
}

std::int64_t size_or(const HfConfig& config, std::string_view key, std::int64_t otherwise) {
  return bounded(config, key, config.find_integer(key).value_or(otherwise));
}

RopeScaling scaling_kind(const HfConfig& rope, const std::string& name) {
  if (name == "default") return RopeScaling::kNone;
  if (name == "linear") return RopeScaling::kLinear;
  if (name == "dynamic") return RopeScaling::kDynamic;
  if (name == "yarn") return RopeScaling::kYarn;
  if (name == "llama3") return RopeScaling::kLlama3;
  if (name == "longrope" || name == "su") return RopeScaling::kLongRope;
  rope.refuse("rope_type",
              name + " is not supported; known: default linear dynamic yarn llama3 longrope");
}

void read_scaling(const HfConfig& scaling, RopeConfig& rope) {
  const std::string name =
      scaling.find_text("rope_type").value_or(scaling.find_text("type").value_or("default"));
  rope.scaling = scaling_kind(scaling, name);
  const bool needs_factor =
      rope.scaling != RopeScaling::kNone && rope.scaling != RopeScaling::kLongRope;
  rope.factor =
      needs_factor ? scaling.number("factor") : scaling.find_number("factor").value_or(1.0);
  if (!(rope.factor > 0 && std::isfinite(rope.factor)))
    scaling.refuse("factor", fmt::format("{} is not positive", rope.factor));
  if (const auto original = scaling.find_integer("original_max_position_embeddings"))
    rope.original_max_position = *original;
  rope.attention_factor = scaling.find_number("attention_factor");
  if (rope.scaling == RopeScaling::kLlama3) {
    rope.low_freq_factor = scaling.number("low_freq_factor");
    rope.high_freq_factor = scaling.number("high_freq_factor");
    rope.original_max_position = size_of(scaling, "original_max_position_embeddings");
    if (!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor))
      scaling.refuse("high_freq_factor", "must be above low_freq_factor, and both positive");
  }
  rope.beta_fast = scaling.find_number("beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = scaling.find_number("beta_slow").value_or(rope.beta_slow);
  rope.truncate = scaling.find_boolean("truncate").value_or(true);
  rope.mscale = scaling.find_number("mscale").value_or(0);
  rope.mscale_all_dim = scaling.find_number("mscale_all_dim").value_or(0);
  if (rope.scaling == RopeScaling::kLongRope) {
    rope.short_factors = scaling.numbers("short_factor");
    rope.long_factors = scaling.numbers("long_factor");
  }
}

void check_heads(DecoderConfig& c, std::string_view where) {
  if (!(c.rms_eps >= 0 && c.rms_eps < 1))
    fail(ErrorCode::kBadInput, "[config.rms_norm_eps] {}: {}, wanted [0, 1)", where, c.rms_eps);
  if (c.heads % c.kv_heads != 0)
    fail(ErrorCode::kBadInput,
         "[config.heads] {}: {} query heads are not a multiple of {} key heads", where, c.heads,
         c.kv_heads);
  if (c.rope.rotary_dim < 2 || c.rope.rotary_dim % 2 != 0 || c.rope.rotary_dim > c.head_dim)
    fail(ErrorCode::kBadInput, "[config.rope] {}: {} of {} values of a head cannot be rotated",
         where, c.rope.rotary_dim, c.head_dim);
  if (c.layers > 4096) fail(ErrorCode::kBadInput, "[config.layers] {}: {} layers", where, c.layers);
}

}  // namespace

RopeConfig rope_from_hf(const HfConfig& config, const DecoderConfig& decoder) {
  RopeConfig rope;
  const double partial = config.find_number("partial_rotary_factor").value_or(1.0);
  if (!(partial > 0 && partial <= 1))
    config.refuse("partial_rotary_factor", fmt::format("{}, wanted (0, 1]", partial));
  rope.rotary_dim = static_cast<std::int64_t>(static_cast<double>(decoder.head_dim) * partial);
  rope.theta = config.find_number("rope_theta").value_or(10000.0);
  if (const auto original = config.find_integer("original_max_position_embeddings"))
    rope.original_max_position = *original;
  // rope_parameters is the newer spelling; it holds theta too.
  if (const auto parameters = config.find_child("rope_parameters")) {
    rope.theta = parameters->find_number("rope_theta").value_or(rope.theta);
    read_scaling(*parameters, rope);
  } else if (const auto scaling = config.find_child("rope_scaling")) {
    read_scaling(*scaling, rope);
  }
  if (!(rope.theta > 0 && std::isfinite(rope.theta)))
    config.refuse("rope_theta", fmt::format("{} is not positive", rope.theta));
  return rope;
}

DecoderConfig config_from_hf(const HfConfig& config) {
  DecoderConfig c;
  c.vocab = size_of(config, "vocab_size");
  c.hidden = size_of(config, "hidden_size");
  c.layers = size_of(config, "num_hidden_layers");
  c.heads = size_of(config, "num_attention_heads");
  c.kv_heads = size_or(config, "num_key_value_heads", c.heads);
  c.head_dim = size_or(config, "head_dim", std::max<std::int64_t>(1, c.hidden / c.heads));
  c.intermediate = size_of(config, "intermediate_size");
  c.max_position = size_or(config, "max_position_embeddings", 2048);
  c.rms_eps = config.find_number("rms_norm_eps").value_or(1e-6);
  c.windows.assign(static_cast<std::size_t>(std::min<std::int64_t>(c.layers, 4097)), 0);
  const std::string act = config.find_text("hidden_act").value_or("silu");
  if (act != "silu" && act != "swish")
    config.refuse("hidden_act", act + " is not supported by this family; wanted silu");
  c.rope = rope_from_hf(config, c);
  c.tied = config.find_boolean("tie_word_embeddings").value_or(false);
  const auto eos = config.find_integers("eos_token_id").value_or(std::vector<std::int64_t>{});
  for (const std::int64_t id : eos) c.eos_ids.push_back(token_id(config, "eos_token_id", id));
  if (!config.is_list("bos_token_id"))
    if (const auto id = config.find_integer("bos_token_id"))
      c.bos_id = token_id(config, "bos_token_id", *id);
  check_heads(c, config.file());
  return c;
}

DecoderConfig config_from_gguf(const GgufMetadata& metadata) {
  DecoderConfig c;
  c.architecture = std::string(metadata.require_text("general.architecture"));
  const auto key = [&](std::string_view name) { return c.architecture + "." + std::string(name); };
  const auto size = [&](std::string_view name, std::optional<std::int64_t> otherwise = {}) {
    const auto found = metadata.integer(key(name));
    const std::int64_t value = found       ? *found
                               : otherwise ? *otherwise
                                           : metadata.require_integer(key(name));
    if (value < 1 || value > (std::int64_t{1} << 28))
      fail(ErrorCode::kBadInput, "[gguf.{}] {}: {} is no sensible size", key(name), metadata.file(),
           value);
    return value;
  };
  c.hidden = size("embedding_length");
  c.layers = size("block_count");
  c.heads = size("attention.head_count");
  c.kv_heads = size("attention.head_count_kv", c.heads);
  c.head_dim = size("attention.key_length", std::max<std::int64_t>(1, c.hidden / c.heads));
  c.intermediate = size("feed_forward_length");
  c.max_position = size("context_length", 2048);
  c.rms_eps = metadata.number(key("attention.layer_norm_rms_epsilon")).value_or(1e-5);
  const std::int64_t window = metadata.integer(key("attention.sliding_window")).value_or(0);
  c.windows.assign(static_cast<std::size_t>(std::min<std::int64_t>(c.layers, 4097)), window);
  c.rope.rotary_dim = size("rope.dimension_count", c.head_dim);
  c.rope.theta = metadata.number(key("rope.freq_base")).value_or(10000.0);
  const std::string scaling(metadata.text(key("rope.scaling.type")).value_or("none"));
  const double factor = metadata.number(key("rope.scaling.factor")).value_or(1.0);
  if (scaling == "linear" && factor > 0) {
    c.rope.scaling = RopeScaling::kLinear;
    c.rope.factor = factor;
  } else if (scaling == "yarn" && factor > 0) {
    c.rope.scaling = RopeScaling::kYarn;
    c.rope.factor = factor;
    c.rope.original_max_position = size("rope.scaling.original_context_length", c.max_position);
    c.rope.attention_factor = metadata.number(key("rope.scaling.attn_factor"));
  } else if (scaling != "none") {
    fail(ErrorCode::kBadInput, "[gguf.{}] {}: rope scaling {} with factor {} is not supported",
         key("rope.scaling.type"), metadata.file(), scaling, factor);
  }
  c.qkv_bias = c.o_bias = c.mlp_bias = Presence::kAsFound;
  c.tied = std::nullopt;
  c.vocab =
      metadata.integer(key("vocab_size")).value_or(0);  // 0: as many rows as the embedding has
  check_heads(c, metadata.file());
  return c;
}

DecoderConfig config_from_meta(const HfConfig& params, const TensorSource& tensors) {
  DecoderConfig c;
  c.architecture = "params.json";
  c.hidden = size_of(params, "dim");
  c.layers = size_of(params, "n_layers");
  c.heads = size_of(params, "n_heads");
  c.kv_heads = size_or(params, "n_kv_heads", c.heads);
  c.head_dim = size_or(params, "head_dim", std::max<std::int64_t>(1, c.hidden / c.heads));
  c.rms_eps = params.find_number("norm_eps").value_or(1e-5);
  // The file gives the MLP's width by a rule with two extra keys; the weights themselves cannot be
  // wrong.
  c.intermediate = tensors.require("layers.0.feed_forward.w1.weight").shape[0];
  c.vocab = tensors.require("tok_embeddings.weight").shape[0];
  c.windows.assign(static_cast<std::size_t>(std::min<std::int64_t>(c.layers, 4097)), 0);
  c.rope.interleaved = true;
  c.rope.rotary_dim = c.head_dim;
  c.rope.theta = params.find_number("rope_theta").value_or(10000.0);
  c.max_position = c.rope.theta >= 500000.0 ? 8192 : 4096;
  if (params.find_boolean("use_scaled_rope").value_or(false)) {
    c.rope.scaling = RopeScaling::kLlama3;
    // Llama 3.1 is trained with 8; the 3.2 models write their 32 under one of these names or not at
    // all.
    c.rope.factor =
        params.find_number("rope_scaling_factor").value_or(c.hidden <= 3072 ? 32.0 : 8.0);
    c.rope.original_max_position = 8192;
    c.max_position = 131072;
  }
  if (const auto longest = params.find_integer("max_seq_len"))
    c.max_position = bounded(params, "max_seq_len", *longest);
  c.tied = std::nullopt;
  check_heads(c, params.file());
  return c;
}

}  // namespace ingot::llama_kind
