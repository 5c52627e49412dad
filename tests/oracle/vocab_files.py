"""Small SentencePiece models and a tiktoken rank file, with the ids that those libraries give.

tests/fixtures/sentencepiece/<name>.model and <name>.json: "cases" {"text", "ids", "ids_bos_eos", "decoded"} and "decode"
{"ids", "decoded"}. tests/fixtures/tiktoken/small.tiktoken and small.json: "pattern", "special_tokens", "cases" {"text",
"ids_plain", "ids_special" (markers in the text become special tokens), "decoded"} and "decode" {"ids", "bytes_base64"}.
Models that are there are kept; --retrain makes them anew.
"""

import base64
import json
import random
import sys
import unicodedata
from pathlib import Path

import sentencepiece
import tiktoken
from tiktoken._educational import bpe_train

from tokenizer_texts import CORPUS, LLAMA3, TEXTS

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
SPM = FIXTURES / "sentencepiece"
MARKERS = ["<mask>x", "x <mask> y", "<sep>", "a<sep>b <sep> c", "<s>x</s>", "<unk>", "x<tool>y", " <tool> ", "<pad>"]

# byte_fallback needs 256 pieces; the rest differ in what the conversions of real families differ in.
MODELS = {
    "llama_bpe": dict(model_type="bpe", vocab_size=520, byte_fallback=True, split_digits=True, add_dummy_prefix=True,
                      remove_extra_whitespaces=False, normalization_rule_name="identity", allow_whitespace_only_pieces=True,
                      user_defined_symbols=["<tool>"], control_symbols=["<mask>"]),
    "gemma_bpe": dict(model_type="bpe", vocab_size=520, byte_fallback=True, split_digits=True, add_dummy_prefix=False,
                      remove_extra_whitespaces=False, normalization_rule_name="identity", allow_whitespace_only_pieces=True,
                      pad_id=0, eos_id=1, bos_id=2, unk_id=3, user_defined_symbols=["<tool>", "  ", "   ", "\n\n"]),
    "t5_unigram": dict(model_type="unigram", vocab_size=300, byte_fallback=False, add_dummy_prefix=True,
                       remove_extra_whitespaces=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, rules=True,
                       user_defined_symbols=["<tool>", "<sep>"], control_symbols=["<mask>"]),
    "unigram_bytes": dict(model_type="unigram", vocab_size=520, byte_fallback=True, add_dummy_prefix=True,
                          remove_extra_whitespaces=False, normalization_rule_name="identity", split_by_number=False,
                          user_defined_symbols=["<tool>"]),
    "unigram_suffix": dict(model_type="unigram", vocab_size=300, byte_fallback=False, treat_whitespace_as_suffix=True, rules=True),
}


def normalization_rules():
  """The part of NFKC (and of white space and controls) that the texts touch, as SentencePiece's table of rules."""
  rules = {}
  for text in TEXTS:
    for size in (3, 2, 1):
      for at in range(len(text) - size + 1):
        piece = text[at:at + size]
        to = unicodedata.normalize("NFKC", piece)
        whole = len(to) < size or size == 1  # a longer rule only where the characters combine
        if to != piece and whole and "\n" not in piece:
          rules[piece] = to
  for space in "\t\n\r\u00a0\u2028\u2029\u3000\u200b\ufeff":
    rules[space] = " "
  for control in "\u0001\u007f":
    rules[control] = ""
  hexes = lambda s: " ".join(f"{ord(c):X}" for c in s)
  return "".join(f"{hexes(k)}\t{hexes(v)}\n" for k, v in sorted(rules.items()) if "\0" not in k)


def train(name):
  options = dict(MODELS[name])
  corpus = SPM / ".corpus.txt"
  corpus.write_text("".join(line for line in CORPUS))
  if options.pop("rules", False):
    table = SPM / ".rules.tsv"
    table.write_text(normalization_rules())
    options["normalization_rule_tsv"] = str(table)
  sentencepiece.SentencePieceTrainer.train(
      input=str(corpus), model_prefix=str(SPM / name), num_threads=1, hard_vocab_limit=False, minloglevel=2,
      character_coverage=0.995, **options)
  for leftover in (SPM / f"{name}.vocab", corpus, SPM / ".rules.tsv"):
    leftover.unlink(missing_ok=True)


def dump(path, head, lists):
  rows = lambda items: "[\n" + ",\n".join(json.dumps(i, ensure_ascii=False) for i in items) + "\n]"
  parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()] + [f"{json.dumps(k)}: {rows(v)}" for k, v in lists.items()]
  path.write_text("{" + ",\n".join(parts) + "}\n")


def write_sentencepiece(name):
  path = SPM / f"{name}.model"
  if not path.exists() or "--retrain" in sys.argv:
    train(name)
  sp = sentencepiece.SentencePieceProcessor(model_file=str(path))
  cases = []
  for text in TEXTS + MARKERS:
    if "\0" in text:
      continue  # the Python binding and the C++ library differ on it
    ids = sp.encode(text)
    cases.append({"text": text, "ids": ids, "ids_bos_eos": sp.encode(text, add_bos=sp.bos_id() >= 0, add_eos=True), "decoded": sp.decode(ids)})
  rng = random.Random(11)
  lists = [[]] + [[rng.randrange(sp.vocab_size()) for _ in range(rng.randint(1, 10))] for _ in range(40)]
  dump(SPM / f"{name}.json", {"vocab_size": sp.vocab_size()}, {"cases": cases, "decode": [{"ids": i, "decoded": sp.decode(i)} for i in lists]})
  print(f"{name}: {path.stat().st_size} bytes, {sp.vocab_size()} pieces")


def write_tiktoken():
  folder = FIXTURES / "tiktoken"
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / "small.tiktoken"
  if not path.exists() or "--retrain" in sys.argv:
    ranks = bpe_train("".join(CORPUS[:len(CORPUS) // 3]), 400, LLAMA3, visualise=None)
    path.write_bytes(b"".join(base64.b64encode(k) + b" %d\n" % v for k, v in sorted(ranks.items(), key=lambda kv: kv[1])))
  ranks = {base64.b64decode(k): int(v) for k, v in (line.split() for line in path.read_bytes().splitlines())}
  special = {"<|begin_of_text|>": 400, "<|end_of_text|>": 401, "<|eot_id|>": 409, "<|start_header_id|>": 406, "<|end_header_id|>": 407}
  encoding = tiktoken.Encoding("small", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=special)
  texts = TEXTS + ["<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>", "x<|eot_id|> <|eot_id", "<|begin_of_text|>" * 3]
  cases = [{"text": t, "ids_plain": encoding.encode_ordinary(t), "ids_special": encoding.encode(t, allowed_special="all"),
            "decoded": encoding.decode(encoding.encode_ordinary(t))} for t in texts]
  assert all(c["decoded"] == c["text"] for c in cases)
  rng = random.Random(12)
  lists = [[rng.randrange(402) for _ in range(rng.randint(1, 10))] for _ in range(40)]
  decode = [{"ids": i, "bytes_base64": base64.b64encode(encoding.decode_bytes(i)).decode()} for i in lists]
  dump(folder / "small.json", {"pattern": LLAMA3, "special_tokens": special}, {"cases": cases, "decode": decode})
  print(f"tiktoken: {len(ranks)} ranks")


def main():
  SPM.mkdir(parents=True, exist_ok=True)
  for name in MODELS:
    write_sentencepiece(name)
  write_tiktoken()


if __name__ == "__main__":
  main()
