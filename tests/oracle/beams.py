#!/usr/bin/env python3
"""Writes beams/table.json and beams/cases.json: beam searches of transformers over a model whose logits are the sum of two
table rows, that of the last token and that of the one before it. The diversity rate, which transformers lacks, is added
where TensorRT-LLM adds it: to every candidate of a beam, times the beam's index."""
import itertools
import json
import pathlib
import random

import torch
from transformers import GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "beams"
VOCAB = 32
PAD = 0
STEPS = 65536  # logits are multiples of 1/65536: whole numbers in JSON, exact in float32, and ties are unlikely


class TableConfig(PreTrainedConfig):
  model_type = "table"
  vocab_size = VOCAB
  num_hidden_layers = 1


class TableModel(PreTrainedModel, GenerationMixin):
  config_class = TableConfig

  def __init__(self, last, before):
    super().__init__(TableConfig())
    self.last = torch.nn.Parameter(last)
    self.before = torch.nn.Parameter(before)
    self.rate = 0.0

  def forward(self, input_ids, **kwargs):
    before = torch.cat((torch.full_like(input_ids[:, :1], PAD), input_ids[:, :-1]), dim=1)
    return CausalLMOutput(logits=self.last[input_ids] + self.before[before])

  def prepare_inputs_for_generation(self, input_ids, **kwargs):
    return {"input_ids": input_ids}

  def _get_top_k_continuations(self, accumulated_log_probs, num_beams, **kwargs):
    bias = self.rate * torch.arange(num_beams, dtype=torch.float32).repeat_interleave(VOCAB)
    return super()._get_top_k_continuations(
      accumulated_log_probs=accumulated_log_probs + bias, num_beams=num_beams, **kwargs)


def search(self, input_ids, **kwargs):
  return self._beam_search(input_ids, **kwargs)


def run(model, case):
  options = {k: v for k, v in case.items() if k not in ("prompt", "beam_search_diversity_rate")}
  config = GenerationConfig(pad_token_id=PAD, do_sample=False, use_cache=False, num_return_sequences=case["num_beams"],
                            return_dict_in_generate=True, output_scores=True, **options)
  model.rate = case["beam_search_diversity_rate"]
  prompt = torch.tensor([case["prompt"]] * case["num_beams"])
  # A width of 1 would otherwise be a greedy search, which is something else once end tokens appear.
  if case["num_beams"] == 1:
    out = model.generate(prompt, generation_config=config, custom_generate=search)
  else:
    out = model.generate(prompt[:1], generation_config=config)
  hypotheses = []
  for ids, score in zip(out.sequences.tolist(), out.sequences_scores.tolist()):
    tokens = ids[len(case["prompt"]):]
    ends = [i for i, t in enumerate(tokens) if t in (case["eos_token_id"] or [])]
    hypotheses.append({"tokens": tokens[:ends[0] + 1] if ends else tokens, "score": score})
  return hypotheses


def cases():
  rng = random.Random(4)
  early = (False, True, "never")
  # Every width with every penalty and rule of stopping, then mixtures of the rest.
  grid = list(itertools.product((1, 2, 4), (0.0, 1.0, -1.0, 2.0), early))
  grid += [(rng.choice((2, 3, 4, 8)), rng.choice((0.0, 1.0, -1.0, 2.0, 0.5)), rng.choice(early)) for _ in range(164)]
  # A penalty that shortens, whose bound on what a beam may reach is its present length.
  grid += [(rng.choice((1, 2)), -1.0, "never") for _ in range(30)]
  for i, (width, penalty, stopping) in enumerate(grid):
    case = {"prompt": [rng.randrange(1, VOCAB) for _ in range(rng.choice((1, 2, 6)))], "num_beams": width,
            "length_penalty": penalty, "early_stopping": stopping,
            "eos_token_id": rng.choice(([3], [13], [7, 13], [3, 7, 9, 11, 13]) if width < 8 else ([3], [3, 7])),
            "max_new_tokens": rng.choice((8, 12, 24)), "beam_search_diversity_rate": 0.0}
    if i >= 36:
      case["max_new_tokens"] = rng.choice((1, 2, 8, 12, 24))
      case["eos_token_id"] = rng.choice((case["eos_token_id"], None))
      extra = rng.choice(("none", "rate", "rate", "repetition", "ngram", "minimum", "bad"))
      if extra == "rate":
        case["beam_search_diversity_rate"] = rng.choice((0.25, 0.5, 2.0))
      elif extra == "repetition":
        case["repetition_penalty"] = rng.choice((1.5, 0.75))
      elif extra == "ngram":
        case["no_repeat_ngram_size"] = rng.choice((1, 2, 3))
      elif extra == "minimum" and case["eos_token_id"]:
        case["min_new_tokens"] = min(4, case["max_new_tokens"])
      elif extra == "bad":
        case["bad_words_ids"] = [[rng.randrange(14, VOCAB)] for _ in range(3)] + [
          [rng.randrange(1, VOCAB), rng.randrange(1, VOCAB)] for _ in range(30)]
    yield case


def main():
  generator = torch.Generator().manual_seed(20)
  last, before = (torch.round(torch.randn(VOCAB, VOCAB, generator=generator) * scale * STEPS) / STEPS
                  for scale in (1.5, 1.0))
  for eos, plus in ((3, 2.0), (7, 1.5), (9, 1.5), (11, 1.0), (13, 1.0)):
    last[:, eos] += plus
  model = TableModel(last, before).eval()
  done = []
  with torch.no_grad():
    for case in cases():
      hypotheses = run(model, case)
      scores = [h["score"] for h in hypotheses]
      # Two ways round the same loops score the same, and rounding would order them.
      if all(a - b > 1e-4 for a, b in itertools.pairwise(scores)):
        done.append({**case, "hypotheses": hypotheses})
  OUT.mkdir(parents=True, exist_ok=True)
  whole = {"vocab": VOCAB, "steps": STEPS, "pad": PAD,
           "last": (last * STEPS).round().int().flatten().tolist(),
           "before": (before * STEPS).round().int().flatten().tolist()}
  (OUT / "table.json").write_text(json.dumps(whole) + "\n")
  (OUT / "cases.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in done) + "\n]\n")
  lengths = [len(h["tokens"]) for c in done for h in c["hypotheses"]]
  print(f"{len(done)} cases, {len(lengths)} hypotheses of {min(lengths)} to {max(lengths)} tokens")


if __name__ == "__main__":
  main()
