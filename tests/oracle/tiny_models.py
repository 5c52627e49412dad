"""Writes the tiny Hugging Face checkpoints and their golden logits: tests/fixtures/models/<name>/.

Each folder holds config.json, weights, tokens.json {"prompt", "continuation", "min_margin"} and logits.npy, float32
[prompt + continuation, vocab]: the prompt in one prefill, then each continuation token as a decode step through the
KV cache, by transformers in float32 with eager attention, on the weights as stored (rounded). The continuation is the
greedy one; min_margin is its smallest gap between the best and the second logit.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from tiny_shapes import BASE, MODELS, PROMPT, SEED_OF, STEPS
from tiny_tokenizer import write_tokenizer

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "MIXED": None}


def seeded(name):
  return np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))


def tensor_shapes(config):
  """Names and shapes in the order of the layers, as transformers names them."""
  h, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
  d = config.get("head_dim") or h // config["num_attention_heads"]
  q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
  qkv_bias = config.get("attention_bias") or config["model_type"] == "qwen2"
  shapes = {"model.embed_tokens.weight": (vocab, h)}
  for i in range(config["num_hidden_layers"]):
    layer = f"model.layers.{i}."
    for name, out, into, bias in [("self_attn.q_proj", q, h, qkv_bias), ("self_attn.k_proj", kv, h, qkv_bias),
                                  ("self_attn.v_proj", kv, h, qkv_bias),
                                  ("self_attn.o_proj", h, q, config.get("attention_bias")),
                                  ("mlp.gate_proj", inner, h, config.get("mlp_bias")),
                                  ("mlp.up_proj", inner, h, config.get("mlp_bias")),
                                  ("mlp.down_proj", h, inner, config.get("mlp_bias"))]:
      shapes[f"{layer}{name}.weight"] = (out, into)
      if bias:
        shapes[f"{layer}{name}.bias"] = (out,)
    shapes[layer + "input_layernorm.weight"] = (h,)
    shapes[layer + "post_attention_layernorm.weight"] = (h,)
  shapes["model.norm.weight"] = (h,)
  if not config["tie_word_embeddings"]:
    shapes["lm_head.weight"] = (vocab, h)
  return shapes


def random_weights(config, seed_name, dtype):
  rng = seeded(seed_name)
  weights = {}
  for name, shape in tensor_shapes(config).items():
    values = rng.standard_normal(shape, dtype=np.float32)
    values = 1.0 + 0.3 * values if "norm.weight" in name else values * (0.3 if name.endswith("bias") else 0.2)
    weights[name] = torch.from_numpy(values.astype(np.float32)).to(dtype or mixed_type(name))
  return weights


def mixed_type(name):
  if "norm" in name:
    return torch.float32
  return torch.float16 if "proj" in name else torch.bfloat16


def write_weights(folder, weights, shards):
  meta = {"format": "pt"}
  stem, ending = ("pytorch_model", "bin") if folder.name.endswith("_bin") else ("model", "safetensors")
  if shards == 1:
    save_file(weights, folder / "model.safetensors", metadata=meta)
    return
  names, weight_map = list(weights), {}
  for s in range(shards):
    file = f"{stem}-{s + 1:05}-of-{shards:05}.{ending}"
    part = {n: weights[n] for n in names[s::shards]}  # a layer's tensors lie in several files
    if ending == "bin":
      torch.save(part, folder / file)
    else:
      save_file(part, folder / file, metadata=meta)
    weight_map |= dict.fromkeys(part, file)
  total = sum(t.numel() * t.element_size() for t in weights.values())
  index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
  write_json(folder / f"{stem}.{ending}.index.json", index)


def write_json(path, value):
  path.write_text(json.dumps(value, indent=1) + "\n")


@torch.no_grad()
def golden(model, prompt, continuation=None):
  """Prefill and greedy (or given) decode steps; checks them against one forward without a cache."""
  out = model(torch.tensor([prompt]), use_cache=True)
  rows, cache, ids, margin = [out.logits[0]], out.cache, [], float("inf")
  for step in range(STEPS):
    best = rows[-1][-1].topk(2)
    ids.append(continuation[step] if continuation else int(best.indices[0]))
    margin = min(margin, float(best.values[0] - best.values[1]))
    out = model(torch.tensor([[ids[-1]]]), cache=cache, use_cache=True)
    cache = out.cache
    rows.append(out.logits[0])
  logits = torch.cat(rows)
  whole = model(torch.tensor([prompt + ids]), use_cache=False).logits[0]
  assert (whole - logits).abs().max() < 1e-4, f"cached and uncached differ by {(whole - logits).abs().max()}"
  return ids, margin, logits.numpy()


def load(folder):
  model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
  assert all(p.dtype == torch.float32 for p in model.parameters())
  return model.eval()


def write_golden(folder, model, seed_name):
  vocab = model.config.vocab_size
  for attempt in range(100):  # a greedy continuation that repeats itself, or is nearly tied, tests little
    prompt = seeded(f"{seed_name} prompt {attempt}").integers(4, vocab, PROMPT).tolist()
    ids, margin, logits = golden(model, prompt)
    if len(set(ids)) >= 8 and margin > 0.02:
      break
  else:
    raise AssertionError(f"{folder}: no good prompt")
  tokens = {"prompt": prompt, "continuation": ids, "min_margin": round(margin, 4)}
  (folder / "tokens.json").write_text(json.dumps(tokens) + "\n")
  np.save(folder / "logits.npy", logits.astype(np.float32))
  return logits


def write_model(name):
  dtype, shards, config = MODELS[name]
  folder = FIXTURES / "models" / name
  folder.mkdir(parents=True, exist_ok=True)
  seed_name = SEED_OF.get(name, name)
  weights = random_weights(config, seed_name, DTYPES[dtype])
  if name == "llama_f16":  # old checkpoints carry this buffer; a loader ignores it
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.full((8,), 7.0)
  write_json(folder / "config.json", config)
  write_weights(folder, weights, shards)
  if name == "llama":
    write_tokenizer(folder, config["vocab_size"])
    write_json(folder / "generation_config.json", {
        "bos_token_id": 0, "eos_token_id": [1, 3], "do_sample": True, "temperature": 0.6, "top_p": 0.9,
        "transformers_version": "4.46.0"})
  model = load(folder)
  logits = write_golden(folder, model, seed_name)
  check_sensitive(name, folder, logits)


def check_sensitive(name, folder, logits):
  """A fixture about a setting must give other logits without it."""
  config = json.loads((folder / "config.json").read_text())
  plain = dict(config)
  for key in ("rope_scaling", "rope_parameters", "sliding_window"):
    plain.pop(key, None)
  if "rope_parameters" in config:
    plain["rope_theta"] = config["rope_parameters"]["rope_theta"]
  plain["sliding_window"] = None
  if plain.get("rope_theta") == config.get("rope_theta", plain.get("rope_theta")) and name.startswith(
      ("llama_rope", "mistral", "qwen2_window")) and name not in ("llama_rope_dynamic", "mistral_nowindow"):
    ids = json.loads((folder / "tokens.json").read_text())
    model_config = type(load(folder).config)(**plain)
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=model_config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
      other = model(torch.tensor([ids["prompt"] + ids["continuation"]])).logits[0].numpy()
    assert np.abs(other - logits).max() > 0.05, f"{name}: the setting does not change the logits"


def main():
  for name in MODELS:
    write_model(name)
    size = sum(f.stat().st_size for f in (FIXTURES / "models" / name).iterdir())
    print(f"{name}: {size / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
  main()
