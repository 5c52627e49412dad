"""The tiny models in other containers, with golden logits where the weights are not those of models/<name>.

tests/fixtures/meta/<name>/: params.json and consolidated.NN.pth with the weights of models/llama_bf16_sharded.
tests/fixtures/gguf/<name>.gguf and <name>.npy: float32 logits of the dequantised weights, for the prompt and
continuation of the model named in gguf/index.json. Rows of q and k are in GGUF's and Meta's interleaved order.
"""

import json

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from gguf_blocks import random_rows
from tiny_models import FIXTURES, golden, seeded, write_json
from tiny_shapes import BASE

MODELS = FIXTURES / "models"
Type = gguf.GGMLQuantizationType
PER_LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
META = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
        "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
        "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}
OUTER_GGUF = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
OUTER_META = {"model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output"}
IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def interleave(w, heads):
  """Half-split rotary rows -> interleaved rows (the inverse of what a conversion to Hugging Face does)."""
  return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).transpose(0, 2, 1, 3).reshape(w.shape)


def split_halves(w, heads):
  return w.reshape(heads, w.shape[0] // heads // 2, 2, -1).transpose(0, 2, 1, 3).reshape(w.shape)


def renamed(name, outer, layers, layer_prefix):
  stem, kind = name.rsplit(".", 1)
  if stem in outer:
    return f"{outer[stem]}.{kind}"
  _, _, index, rest = stem.split(".", 3)
  return f"{layer_prefix}.{index}.{layers[rest]}.{kind}"


# ---- Meta ----

def write_meta():
  config = json.loads((MODELS / "llama_bf16_sharded" / "config.json").read_text())
  weights = {}
  for file in sorted((MODELS / "llama_bf16_sharded").glob("*.safetensors")):
    weights |= load_file(file)
  meta = {}
  for name, w in weights.items():
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(name.split(".")[-2])
    if heads:
      w = torch.from_numpy(interleave(w.float().numpy(), heads)).to(w.dtype)
    meta[renamed(name, OUTER_META, META, "layers")] = w.contiguous()
  params = dict(dim=64, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=320, multiple_of=32, ffn_dim_multiplier=0.5,
                norm_eps=1e-5, rope_theta=10000.0)
  # rope.freqs is a buffer that a loader ignores.
  save_meta("llama", params, [meta | {"rope.freqs": torch.full((8,), 7.0)}])
  # Llama 1 and 2 split the embedding by columns and leave the vocabulary size out; Llama 3 splits it by rows.
  save_meta("llama2_mp2", without_theta(params) | dict(vocab_size=-1), meta_shards(meta, embedding_dim=1))
  save_meta("llama3_mp2", params, meta_shards(meta, embedding_dim=0))


def without_theta(params):
  return {k: v for k, v in params.items() if k != "rope_theta"}


def meta_shards(meta, embedding_dim):
  shards = [{}, {}]
  for name, w in meta.items():
    stem = name.split(".")[-2]
    dim = {"wo": 1, "w2": 1, "tok_embeddings": embedding_dim}.get(stem, 0)
    parts = [w, w] if "norm" in stem else w.chunk(2, dim)
    for shard, part in zip(shards, parts):
      shard[name] = part.clone()
  return shards


def save_meta(name, params, shards):
  folder = FIXTURES / "meta" / name
  folder.mkdir(parents=True, exist_ok=True)
  (folder / "params.json").write_text(json.dumps(params) + "\n")
  for index, shard in enumerate(shards):
    torch.save(shard, folder / f"consolidated.{index:02}.pth")


# ---- GGUF ----

def pack(values, qtype):
  """float32 [rows, columns] -> the raw data the writer wants, and the values that it stands for."""
  if qtype == Type.IQ4_NL:
    raw = pack_iq4_nl(values)
  elif qtype in (Type.F32, Type.F16):
    raw = values.astype(np.float32 if qtype == Type.F32 else np.float16)
    return raw, raw.astype(np.float32)
  else:
    raw = quantize(values, qtype)
  return raw, dequantize(raw, qtype)


def pack_iq4_nl(values):
  blocks = values.reshape(-1, 32)
  largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
  scale = (largest / -127).astype(np.float16)
  nearest = np.abs(blocks[:, :, None] / scale.astype(np.float32)[:, :, None] - IQ4_NL).argmin(2).astype(np.uint8)
  raw = np.concatenate([scale.view(np.uint8), nearest[:, :16] | (nearest[:, 16:] << 4)], 1)
  return raw.reshape(values.shape[0], -1)


class GgufFile:
  """Collects packed tensors under their GGUF names, and under Hugging Face's the values that they stand for."""

  def __init__(self, name, config):
    self.name, self.config, self.values = name, config, {}
    self.path = FIXTURES / "gguf" / f"{name}.gguf"
    self.path.parent.mkdir(parents=True, exist_ok=True)
    self.writer = gguf.GGUFWriter(self.path, config["model_type"])
    self.writer.add_name(name)
    self.writer.add_context_length(config["max_position_embeddings"])
    self.writer.add_embedding_length(config["hidden_size"])
    self.writer.add_block_count(config["num_hidden_layers"])
    self.writer.add_feed_forward_length(config["intermediate_size"])
    self.writer.add_head_count(config["num_attention_heads"])
    self.writer.add_head_count_kv(config["num_key_value_heads"])
    self.writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    self.writer.add_rope_freq_base(theta)
    self.writer.add_vocab_size(config["vocab_size"])
    self.head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    self.writer.add_rope_dimension_count(self.head_dim)
    if "head_dim" in config:
      self.writer.add_key_length(self.head_dim)
      self.writer.add_value_length(self.head_dim)

  def heads(self, name):
    """Heads whose rows GGUF keeps interleaved; None where the order is Hugging Face's (every Qwen2 tensor)."""
    if self.config["model_type"] != "llama":
      return None
    return {"q_proj": self.config["num_attention_heads"],
            "k_proj": self.config["num_key_value_heads"]}.get(name.split(".")[-2])

  def add(self, name, values, qtype):
    heads = self.heads(name)
    values = interleave(values, heads) if heads else values
    raw, values = pack(values, qtype if values.ndim == 2 else Type.F32)
    self.add_raw(name, raw, values, qtype if values.ndim == 2 else Type.F32)

  def add_raw(self, name, raw, values, qtype):
    heads = self.heads(name)
    self.values[name] = split_halves(values, heads) if heads else values
    self.writer.add_tensor(renamed(name, OUTER_GGUF, PER_LAYER, "blk"), raw, raw_dtype=qtype)

  def finish(self, prompt, continuation):
    self.writer.write_header_to_file()
    self.writer.write_kv_data_to_file()
    self.writer.write_tensors_to_file()
    self.writer.close()
    family = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
    config_class, model_class = family[self.config["model_type"]]
    config = config_class(**self.config)
    config._attn_implementation = "eager"
    model = model_class(config).float().eval()
    missing, unexpected = model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in self.values.items()}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    _, _, logits = golden(model, prompt, continuation)
    np.save(self.path.with_suffix(".npy"), logits)
    return logits


def hugging_face(name):
  folder = MODELS / name
  config = json.loads((folder / "config.json").read_text())
  weights = {k: v.float().numpy() for k, v in load_file(folder / "model.safetensors").items() if "inv_freq" not in k}
  tokens = json.loads((folder / "tokens.json").read_text())
  return config, weights, tokens


def add_vocabulary(file):
  """The byte-level tokenizer of models/llama in GGUF's own form."""
  tokenizer = json.loads((MODELS / "llama" / "tokenizer.json").read_text())
  vocab = tokenizer["model"]["vocab"]
  special = {t["id"] for t in tokenizer["added_tokens"]}
  tokens = sorted(vocab, key=vocab.get)
  w = file.writer
  w.add_tokenizer_model("gpt2")
  w.add_tokenizer_pre("gpt-2")
  w.add_token_list(tokens)
  w.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(tokens))])
  w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
  w.add_bos_token_id(0)
  w.add_eos_token_id(1)
  w.add_add_bos_token(True)
  template = json.loads((MODELS / "llama" / "tokenizer_config.json").read_text())["chat_template"]
  w.add_chat_template(template)


def write_plain(index, model, name, qtype, embedding_type=None):
  config, weights, tokens = hugging_face(model)
  file = GgufFile(name, config)
  if name == "llama_q8_0":
    add_vocabulary(file)
  if config.get("rope_parameters", {}).get("rope_type") == "llama3":
    add_rope_divisors(file)
  for tensor, values in weights.items():
    outer = tensor.startswith(("model.embed", "lm_head"))
    file.add(tensor, values, (outer and embedding_type) or qtype)
  logits = file.finish(tokens["prompt"], tokens["continuation"])
  index[name] = model
  stored = np.load(MODELS / model / "logits.npy")
  print(f"{name}: {file.path.stat().st_size} bytes, largest change of a logit {np.abs(logits - stored).max():.2g}")
  return logits, stored


def add_rope_divisors(file):
  """rope_freqs.weight [head_dim / 2]: what each rotary frequency is divided by; the metadata does not tell."""
  config = LlamaConfig(**file.config)
  scaled = LlamaForCausalLM(config).model.rotary_emb.inv_freq.double().numpy()
  plain = config.rope_parameters["rope_theta"] ** (-np.arange(0, file.head_dim, 2) / file.head_dim)
  file.writer.add_tensor("rope_freqs.weight", (plain / scaled).astype(np.float32), raw_dtype=Type.F32)


K_CONFIG = BASE | dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1, vocab_size=64)
K_TYPES = {"q_proj": "Q2_K", "k_proj": "Q3_K", "v_proj": "Q6_K", "o_proj": "Q5_K", "gate_proj": "Q4_K",
           "up_proj": "IQ4_XS", "down_proj": "Q6_K", "embed_tokens": "Q4_K", "lm_head": "Q6_K"}


def write_k_mixed(index):
  """Every K type in one file, as real mixed files have it: random raw blocks, dequantised by gguf."""
  from tiny_models import tensor_shapes
  file = GgufFile("k_mixed", K_CONFIG)
  rng = seeded("k_mixed")
  for name, shape in tensor_shapes(K_CONFIG).items():
    if len(shape) == 1:
      file.add(name, (1 + 0.3 * rng.standard_normal(shape)).astype(np.float32), Type.F32)
      continue
    type_name = K_TYPES[name.split(".")[-2]]
    raw = random_rows(rng, type_name, shape, 0.1)
    file.add_raw(name, raw, dequantize(raw, Type[type_name]), Type[type_name])
  prompt = seeded("k_mixed prompt").integers(4, 64, 37).tolist()
  continuation = seeded("k_mixed continuation").integers(4, 64, 16).tolist()
  file.finish(prompt, continuation)
  index["k_mixed"] = {"prompt": prompt, "continuation": continuation}


def check_with_transformers(name, logits, prompt):
  """transformers reads the file by its own code: the names and the row order must suit it."""
  model = AutoModelForCausalLM.from_pretrained(
      FIXTURES / "gguf", gguf_file=f"{name}.gguf", dtype=torch.float32, attn_implementation="eager").eval()
  with torch.no_grad():
    other = model(torch.tensor([prompt])).logits[0].numpy()
  assert np.abs(other - logits[:len(prompt)]).max() < 1e-4, f"{name}: transformers reads it differently"


def main():
  write_meta()
  index = {}
  for name in "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL".split():
    logits, stored = write_plain(index, "llama", f"llama_{name.lower()}", Type[name])
    assert np.abs(logits - stored).max() < {"F32": 1e-6, "F16": 0.05, "BF16": 0.3}.get(name, 9)
    if name in ("F32", "Q4_1", "Q8_0"):
      check_with_transformers(f"llama_{name.lower()}", logits, hugging_face("llama")[2]["prompt"])
  for model, name, qtype in [("llama_rope_llama3", "llama3_rope_freqs_bf16", Type.BF16),
                             ("llama_gqa_tied", "llama_gqa_tied_q8_0", Type.Q8_0), ("qwen2", "qwen2_bf16", Type.BF16)]:
    write_plain(index, model, name, qtype)
  write_k_mixed(index)
  write_json(FIXTURES / "gguf" / "index.json", index)


if __name__ == "__main__":
  main()
