"""The list of tiny checkpoints: one entry a fixture folder.

Shapes are chosen so that the usual mistakes change the logits: fewer KV heads than heads, heads * head_dim unlike
the hidden size, odd vocabularies, a window shorter than the prompt, biases and norm weights that are not 0 and 1.
Configurations are written by hand, in both the old spelling (rope_theta, rope_scaling, torch_dtype) and the new one
(rope_parameters, dtype), because both are found in the wild.
"""

PROMPT = 37
STEPS = 16

BASE = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=64, intermediate_size=96,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=320, max_position_embeddings=64,
    rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False, attention_bias=False, mlp_bias=False,
    bos_token_id=0, eos_token_id=1, initializer_range=0.02, pretraining_tp=1, attention_dropout=0.0,
    transformers_version="4.46.0", use_cache=True)

# A smaller, odd vocabulary, heads * head_dim = 128 unlike hidden 64, four heads a group.
SMALL = BASE | dict(vocab_size=131, num_attention_heads=8, head_dim=16, num_hidden_layers=2)


def without(config, *keys):
  return {k: v for k, v in config.items() if k not in keys}


def rope_scaled(scaling, **more):
  """The old spelling: rope_theta on top, rope_scaling beside it."""
  return SMALL | dict(rope_scaling=scaling) | more


def rope_parameters(parameters, **more):
  """The new spelling: everything in rope_parameters."""
  return without(SMALL, "rope_theta", "pretraining_tp") | dict(rope_parameters=parameters, transformers_version="5.0.0") | more


MISTRAL = without(SMALL, "attention_bias", "mlp_bias", "pretraining_tp") | dict(
    architectures=["MistralForCausalLM"], model_type="mistral")
QWEN2 = without(SMALL, "attention_bias", "mlp_bias", "pretraining_tp", "head_dim") | dict(
    architectures=["Qwen2ForCausalLM"], model_type="qwen2", num_attention_heads=4, rms_norm_eps=1e-6,
    rope_theta=1000000.0, use_sliding_window=False, sliding_window=8, max_window_layers=1)

LONG_FACTORS = [1.0, 1.3, 1.9, 2.7, 3.6, 4.4, 5.1, 5.9]
SHORT_FACTORS = [1.0, 1.05, 1.1, 1.15, 1.25, 1.4, 1.55, 1.7]


def longrope(original):
  return rope_scaled(
      dict(type="longrope", short_factor=SHORT_FACTORS, long_factor=LONG_FACTORS),
      original_max_position_embeddings=original, max_position_embeddings=64)


# name -> (stored dtype, number of shards, configuration)
MODELS = {
    "llama": ("F32", 1, BASE | dict(torch_dtype="float32", eos_token_id=[1, 3])),
    "llama_bf16_sharded": ("BF16", 3, BASE | dict(torch_dtype="bfloat16")),
    "llama_f16": ("F16", 1, BASE | dict(torch_dtype="float16")),
    "llama_gqa_tied": ("BF16", 1, SMALL | dict(
        vocab_size=307, num_key_value_heads=1, tie_word_embeddings=True, rope_theta=500000.0, torch_dtype="bfloat16")),
    "llama_bias": ("F16", 1, SMALL | dict(attention_bias=True, mlp_bias=True, torch_dtype="float16")),
    "llama_rope_linear": ("BF16", 1, rope_scaled(dict(type="linear", factor=4.0))),
    # Within max_position_embeddings dynamic scaling is the identity; beyond it transformers' answer depends on how the
    # sequence was chunked, so it is no oracle there.
    "llama_rope_dynamic": ("BF16", 1, rope_scaled(dict(type="dynamic", factor=2.0))),
    "llama_rope_yarn": ("BF16", 1, rope_scaled(
        dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5))),
    "llama_rope_yarn_mscale": ("BF16", 1, rope_parameters(
        dict(rope_type="yarn", rope_theta=50000.0, factor=4.0, original_max_position_embeddings=16, mscale=0.8,
             mscale_all_dim=0.4, truncate=False), dtype="bfloat16")),
    "llama_rope_llama3": ("BF16", 1, rope_parameters(
        dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
             original_max_position_embeddings=32), dtype="bfloat16")),
    # Every prompt is above 16 positions and none above 64: all long factors, then all short ones. (Crossing while
    # decoding is left out: transformers keeps keys that were cached with the short factors.)
    "llama_rope_longrope": ("BF16", 1, longrope(16)),
    "llama_rope_longrope_short": ("BF16", 1, longrope(64) | dict(max_position_embeddings=256)),
    "mistral": ("BF16", 1, MISTRAL | dict(sliding_window=8, torch_dtype="bfloat16")),
    "mistral_nowindow": ("F16", 1, MISTRAL | dict(
        sliding_window=None, head_dim=24, num_attention_heads=6, num_key_value_heads=3, intermediate_size=88,
        rope_theta=1000000.0, torch_dtype="float16")),
    "smollm2": ("BF16", 1, BASE | dict(
        hidden_size=72, num_attention_heads=9, num_key_value_heads=3, intermediate_size=96, num_hidden_layers=2,
        vocab_size=257, tie_word_embeddings=True, rope_theta=100000, rope_interleaved=False, torch_dtype="bfloat16",
        bos_token_id=1, eos_token_id=2, pad_token_id=2)),
    "qwen2": ("BF16", 1, QWEN2 | dict(torch_dtype="bfloat16")),
    "qwen2_tied": ("F16", 1, QWEN2 | dict(tie_word_embeddings=True, torch_dtype="float16")),
    "qwen2_window": ("BF16", 1, QWEN2 | dict(use_sliding_window=True, torch_dtype="bfloat16")),
}

# For containers rather than for arithmetic: pytorch_model-*.bin with an index, and several types in one file.
MINI = BASE | dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, vocab_size=67)
MODELS |= {
    "llama_pytorch_bin": ("F32", 2, MINI | dict(torch_dtype="float32")),
    "llama_mixed_types": ("MIXED", 1, MINI | dict(torch_dtype="bfloat16")),
}

# Folders that must hold the same random weights (before rounding), so that formats can be compared with each other.
SEED_OF = {"llama_bf16_sharded": "llama", "llama_f16": "llama"}
