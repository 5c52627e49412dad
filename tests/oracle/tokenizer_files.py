"""Small tokenizer.json files and what the `tokenizers` library makes of them: tests/fixtures/tokenizers/<name>/.

cases.json: a list of {"text", "ids_special", "ids_plain", "decoded", "decoded_skip"}: ids with and without special tokens
added, and the text of ids_special with special tokens kept and skipped.
decode.json: a list of {"ids", "decoded", "decoded_skip"} for id lists that no text gives (cut characters, reordered pieces).
long.json: a list of {"unit", "count", "suffix", "ids_plain_runs": [[id, how often], ..]} for the text unit * count + suffix.

Real layouts come from tokenizer_models.py and single components from tokenizer_parts.py.
"""

import itertools
import json
import random
import sys
import zlib
from pathlib import Path

from tokenizers import Tokenizer

from tokenizer_texts import LONG, TEXTS

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "tokenizers"


def dump_lines(path, rows):
  path.write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]\n")


def freeze(name, tokenizer, extra=(), long=False, edit=None, texts=TEXTS, decodes=20, trained=True):
  """Saves the tokenizer and what it answers after being read back.

  Training breaks ties by chance, so the vocabulary of a trained one is kept if it is there already.
  """
  folder = FOLDER / name
  folder.mkdir(parents=True, exist_ok=True)
  content = json.loads(tokenizer.to_str())
  if edit:
    edit(content)
  if trained and (folder / "tokenizer.json").exists() and "--retrain" not in sys.argv:
    content["model"] = json.loads((folder / "tokenizer.json").read_text())["model"]
  (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")
  loaded = Tokenizer.from_file(str(folder / "tokenizer.json"))
  rows, seen = [], set()
  for text in [*texts, *extra]:
    ids = loaded.encode(text, add_special_tokens=True).ids
    seen.update(ids)
    rows.append({"text": text, "ids_special": ids, "ids_plain": loaded.encode(text, add_special_tokens=False).ids,
                 "decoded": loaded.decode(ids, skip_special_tokens=False),
                 "decoded_skip": loaded.decode(ids, skip_special_tokens=True)})
  dump_lines(folder / "cases.json", rows)
  if long:
    dump_lines(folder / "long.json", [
        {"unit": unit, "count": count, "suffix": suffix,
         "ids_plain_runs": runs(loaded.encode(unit * count + suffix, add_special_tokens=False).ids)}
        for unit, count, suffix in LONG])
  rng = random.Random(zlib.crc32(name.encode()))
  pool = sorted(seen | {t["id"] for t in content["added_tokens"]})
  lists = [[]] + [[rng.choice(pool) for _ in range(rng.randint(1, 12))] for _ in range(decodes)]
  dump_lines(folder / "decode.json", decoded_rows(loaded, lists))
  return loaded


def runs(ids):
  return [[i, len(list(group))] for i, group in itertools.groupby(ids)]


def decoded_rows(tokenizer, lists):
  rows = []
  for ids in lists:
    try:
      rows.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                   "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True)})
    except BaseException as error:  # the library panics on a few odd inputs: nothing to compare with
      if type(error).__name__ != "PanicException":
        raise
  return rows


def main():
  import tokenizer_models
  import tokenizer_parts
  wanted = [a for a in sys.argv[1:] if not a.startswith("--")]
  for module in (tokenizer_models, tokenizer_parts):
    module.write(lambda name: not wanted or name in wanted)
  total = sum(f.stat().st_size for f in FOLDER.rglob("*") if f.is_file())
  print(f"{len(list(FOLDER.iterdir()))} tokenizers, {total / 1e3:.0f} kB")


if __name__ == "__main__":
  main()
