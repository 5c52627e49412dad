// Draws from logits of Llama 3's vocabulary, and a state's bookkeeping at several lengths of the
// sequence: both cost the same however long it is.
#include "runtime/logprobs.h"
#include "runtime/sampler.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace ingot {
namespace {

constexpr std::size_t kVocab = 128256;
constexpr std::int64_t kLengths[] = {1000, 10000, 100000};

// The shape of a language model's logits: a wide bulk and a few tokens far above it.
std::vector<float> logits() {
  std::mt19937 random(1);
  std::normal_distribution<float> bulk(0.0f, 2.2f);
  std::vector<float> row(kVocab);
  for (float& x : row) x = bulk(random);
  for (int i = 0; i < 40; ++i)
    row[random() % kVocab] = 20.0f - 1.5f * std::log2(1.0f + static_cast<float>(i));
  return row;
}

// Tokens as a text has them: some often, many once.
std::vector<std::int32_t> text(std::size_t length) {
  std::mt19937 random(2);
  std::vector<std::int32_t> ids(length);
  for (std::int32_t& id : ids) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    id = static_cast<std::int32_t>(std::exp(u * std::log(static_cast<double>(kVocab))) - 1);
  }
  return ids;
}

void draws(benchmark::State& state, const SamplingParams& p, std::size_t length = 1000) {
  const std::vector<float> row = logits();
  Sampler sampler;
  const SamplingState sequence(p, text(length));
  std::uint64_t position = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        sampler.draw(row, p, {.state = sequence, .seed = 1, .position = length + position++}));
}

const SamplingParams kAllPenalties{.repetition_penalty = 1.1,
                                   .presence_penalty = 0.2,
                                   .frequency_penalty = 0.1,
                                   .no_repeat_ngram_size = 4,
                                   .logit_bias = {{7, 1.0}, {9000, -2.0}},
                                   .bad_token_ids = {{11}, {12, 13}}};

void penalised(benchmark::State& state) {
  draws(state, kAllPenalties, static_cast<std::size_t>(state.range(0)));
}

// A draft of four tokens, pushed and taken back, then one token.
void bookkeeping(benchmark::State& state) {
  SamplingParams p = kAllPenalties;
  p.top_p = 0.9;
  p.top_p_decay = 0.99;
  const std::vector<std::int32_t> ids = text(static_cast<std::size_t>(state.range(0)));
  SamplingState sequence(p, ids);
  std::size_t at = 0;
  for (auto _ : state) {
    for (std::size_t d = 0; d < 4; ++d) sequence.push(ids[(at + d) % ids.size()]);
    sequence.pop(4);
    sequence.push(ids[at++ % ids.size()]);
    if (sequence.generated() == 1000) sequence.pop(1000);
  }
}

void logprobs(benchmark::State& state) {
  const std::vector<float> row = logits();
  Logprobs reader;
  for (auto _ : state)
    benchmark::DoNotOptimize(reader.of(row, 5, static_cast<std::int32_t>(state.range(0))));
}

void masked(benchmark::State& state) {
  const std::vector<float> row = logits();
  std::vector<std::uint32_t> mask((kVocab + 31) / 32, 0);
  for (std::size_t i = 0; i < mask.size(); i += 7) mask[i] = 0x10;
  Sampler sampler;
  const SamplingParams p;
  const SamplingState sequence(p, {});
  std::uint64_t position = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(sampler.draw(
        row, p, {.state = sequence, .seed = 1, .position = position++, .token_mask = mask}));
}

BENCHMARK_CAPTURE(draws, greedy, SamplingParams{.temperature = 0});
BENCHMARK_CAPTURE(draws, temperature, SamplingParams{.temperature = 0.8});
BENCHMARK_CAPTURE(draws, top_k_50, SamplingParams{.top_k = 50});
BENCHMARK_CAPTURE(draws, top_p_0.9, SamplingParams{.top_p = 0.9});
BENCHMARK_CAPTURE(draws, top_p_0.9_hot, SamplingParams{.temperature = 2, .top_p = 0.9});
BENCHMARK_CAPTURE(draws, top_k_50_top_p_0.9, SamplingParams{.top_k = 50, .top_p = 0.9});
BENCHMARK_CAPTURE(draws, min_p_0.05, SamplingParams{.min_p = 0.05});
BENCHMARK_CAPTURE(draws, typical_p_0.9, SamplingParams{.typical_p = 0.9});
BENCHMARK(penalised)->ArgsProduct({{kLengths[0], kLengths[1], kLengths[2]}});
BENCHMARK(masked);
BENCHMARK(bookkeeping)->ArgsProduct({{kLengths[0], kLengths[1], kLengths[2]}});
BENCHMARK(logprobs)->Arg(0)->Arg(5)->Arg(20);

}  // namespace
}  // namespace ingot

BENCHMARK_MAIN();
