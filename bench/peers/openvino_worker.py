"""Keeps one openvino-genai pipeline open and measures on command, so that its load is paid once.

usage: openvino_worker.py MODEL.gguf THREADS
Each line on standard input, "PROMPT_TOKENS NEW_TOKENS SEED", is answered by one JSON line: {"first_token_s", "step_s"}.
Prompts are random ids and differ by seed: the pipeline keeps the cache of a prompt that it sees twice.
"""
import json
import sys

import numpy
import openvino
import openvino_genai


def main():
    pipeline = openvino_genai.LLMPipeline(sys.argv[1], "CPU", INFERENCE_NUM_THREADS=int(sys.argv[2]))
    print("{}", flush=True)  # loaded
    for line in sys.stdin:
        prompt, new, seed = map(int, line.split())
        ids = numpy.random.default_rng(seed).integers(300, 40000, (1, prompt)).astype(numpy.int64)
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        metrics = pipeline.generate(inputs, config).perf_metrics
        steps = metrics.raw_metrics.token_infer_durations[1:]  # the first is the prompt's
        step = float(numpy.median(steps)) / 1e6 if len(steps) > 0 else None
        print(json.dumps({"first_token_s": metrics.get_ttft().mean / 1e3, "step_s": step,
                          "tpot_s": metrics.get_tpot().mean / 1e3 if new > 1 else None}), flush=True)


if __name__ == "__main__":
    main()
