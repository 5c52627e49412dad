"""Keeps one openvino-genai pipeline open and measures on command, so that its load is paid once.

usage: openvino_worker.py MODEL.gguf THREADS [SEQUENCES]
With SEQUENCES the pipeline batches continuously, that many requests at once.
Each line on standard input, "PROMPT_TOKENS NEW_TOKENS SEED", is answered by one JSON line: {"first_token_s", "step_s",
"tpot_s", "seconds"}, the last for all requests from the call to the return.
Prompts are random ids and differ by seed: the pipeline keeps the cache of a prompt that it sees twice.
"""
import json
import sys
import time

import numpy
import openvino
import openvino_genai


def main():
    properties = {"INFERENCE_NUM_THREADS": int(sys.argv[2])}
    sequences = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if len(sys.argv) > 3:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = 2  # GB
        scheduler.max_num_seqs = sequences
        scheduler.enable_prefix_caching = False
        properties["scheduler_config"] = scheduler
    pipeline = openvino_genai.LLMPipeline(sys.argv[1], "CPU", **properties)
    print("{}", flush=True)  # loaded
    for line in sys.stdin:
        prompt, new, seed = map(int, line.split())
        ids = numpy.random.default_rng(seed).integers(300, 40000, (sequences, prompt)).astype(numpy.int64)
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        begin = time.monotonic()
        metrics = pipeline.generate(inputs, config).perf_metrics
        seconds = time.monotonic() - begin
        steps = metrics.raw_metrics.token_infer_durations[1:]  # the first is the prompt's
        step = float(numpy.median(steps)) / 1e6 if len(steps) > 0 else None
        print(json.dumps({"first_token_s": metrics.get_ttft().mean / 1e3, "step_s": step,
                          "tpot_s": metrics.get_tpot().mean / 1e3 if new > 1 else None, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
