"""Freezes what the real small model says: tests/fixtures/smollm2/greedy.json and english.json.

  python smollm2.py PATH_TO/SmolLM2-135M-Instruct.Q4_1.gguf   (scripts/fetch_smollm2 prints the path)

The weights are dequantised to float32 and run by transformers with eager attention. greedy.json: for each prompt its text
or messages, its ids, 64 greedy ids (EOS does not stop them) and the gap between the best and the second logit at each.
english.json: the ids of english.txt, the negative log likelihood of each id after the first, and the perplexity.
"""

import json
import math
import sys
from pathlib import Path

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "smollm2"
STEPS = 64

PROMPTS = {
    "english": "The three most important things to know about the ocean are",
    "story": "Once upon a time there was a small robot who lived at the end of a long street.",
    "code": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    if n < 2:\n",
    "json": "{\"name\": \"Ada\", \"born\": 1815, \"languages\": [\"English\",",
    "numbers": "1, 2, 4, 8, 16, 32, 64,",
    "french": "La capitale de la France est Paris. La capitale de l'Italie est",
    "mixed": "Grüße aus Köln! 東京 は 日本 の 首都 です。 Привет, мир! 🙂 In English this means",
    "single": "Hello",
}
CHATS = {
    "chat": [{"role": "user", "content": "What is the capital of France?"}],
    "chat_system": [{"role": "system", "content": "Answer in one short sentence."},
                    {"role": "user", "content": "Why is the sky blue?"},
                    {"role": "assistant", "content": "Because air scatters blue light more than red light."},
                    {"role": "user", "content": "And why is a sunset red?"}],
}


def tokenizer_of(path):
  """The file's byte-level BPE, with SmolLM2's pre-tokenizer: single digits first, then GPT-2's split."""
  fields = {name: GGUFReader(path).fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")}
  vocab = {token: i for i, token in enumerate(fields["tokens"])}
  merges = [tuple(m.split(" ")) for m in fields["merges"]]
  tokenizer = Tokenizer(models.BPE(vocab, merges))
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
      [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
  tokenizer.decoder = decoders.ByteLevel()
  control = [t for t, kind in zip(fields["tokens"], fields["token_type"]) if kind == 3]
  tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
  return tokenizer


def chat_text(messages):
  """What the file's own chat template gives for these messages."""
  text = ""
  if messages[0]["role"] != "system":
    text = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
  for message in messages:
    text += f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
  return text + "<|im_start|>assistant\n"


@torch.no_grad()
def greedy(model, ids):
  cache, feed, out_ids, gaps = None, ids, [], []
  for _ in range(STEPS):
    out = model(torch.tensor([feed]), cache=cache, use_cache=True)
    cache = out.cache
    best = out.logits[0, -1].topk(2)
    out_ids.append(int(best.indices[0]))
    gaps.append(round(float(best.values[0] - best.values[1]), 4))
    feed = out_ids[-1:]
  return out_ids, gaps


@torch.no_grad()
def likelihood(model, ids):
  logs = model(torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
  return [float(-logs[i, ids[i + 1]]) for i in range(len(ids) - 1)]


def main():
  path = Path(sys.argv[1])
  tokenizer = tokenizer_of(path)
  model = AutoModelForCausalLM.from_pretrained(
      path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
  assert model.config.rope_parameters["rope_theta"] == 100000.0 and abs(model.config.rms_norm_eps - 1e-5) < 1e-9
  FOLDER.mkdir(parents=True, exist_ok=True)
  cases = []
  for name, source in (PROMPTS | CHATS).items():
    is_chat = name in CHATS
    text = chat_text(source) if is_chat else source
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    out_ids, gaps = greedy(model, ids)
    case = {"name": name, "text": text, "prompt": ids, "greedy": out_ids, "gaps": gaps, "min_gap": min(gaps),
            "completion": tokenizer.decode(out_ids, skip_special_tokens=False)}
    if is_chat:
      case["messages"] = source
    cases.append(case)
    print(f"{name}: smallest gap {min(gaps)}: {case['completion']!r}")
  rows = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
  (FOLDER / "greedy.json").write_text(f"[\n{rows}\n]\n")

  text = (FOLDER / "english.txt").read_text()
  ids = tokenizer.encode(text, add_special_tokens=False).ids
  nll = likelihood(model, ids)
  mean = sum(nll) / len(nll)
  result = {"ids": ids, "nll": [round(x, 5) for x in nll], "perplexity": math.exp(mean), "mean_nll": mean}
  (FOLDER / "english.json").write_text(json.dumps(result) + "\n")
  print(f"{len(ids)} tokens, perplexity {math.exp(mean):.4f}")


if __name__ == "__main__":
  main()
