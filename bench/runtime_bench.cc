// What the engine loop costs beside its kernels: decode steps on a device that computes nothing,
// with a vocabulary of 32 tokens, so that draws cost next to nothing too (sampler_bench has those).
// The columns p50_* are medians over steps, in microseconds of wall clock, by part of the step:
//
//   schedule   what runs, its pages, the arrays of the batch and what changed in the block table
//   run        the arrays' way to the device, and what there is around a draw
//   commit     pages are booked, tokens appended, ends noticed, the step counted
//   deliver    tokens become text and events
//
//   usage: runtime_bench [--benchmark_filter=...]
#include "base/check.h"
#include "compile/compile.h"
#include "nn/layers.h"
#include "runtime/engine_loop.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "tests/ops/forwarding_device.h"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ingot {
namespace {

constexpr std::int64_t kVocab = 32;
constexpr std::int64_t kSteps = 2000;  // measured
constexpr std::int64_t kWarmUp = 64;
constexpr std::int64_t kSpread = 61;          // of lengths
constexpr std::int64_t kPromptTokens = 8192;  // of a step, at most

// Its pages hold nothing, so that millions of them fit.
class EmptyDevice final : public test::ForwardingDevice {
 public:
  EmptyDevice() : ForwardingDevice(make_null_device()) {}
  std::size_t page_bytes(const StateSpec&, std::int64_t) const override { return 0; }
};

// One layer, so that every array of a batch is read.
Compiled compile_layer(const Device& device, const DimValues& max) {
  constexpr std::int64_t kHidden = 8;
  const auto weight = [](std::int64_t rows, std::int64_t columns) {
    return ValueType{.dtype = DType::kF32,
                     .dims = {rows, columns},
                     .format = &weight_format("f32"),
                     .state = {}};
  };
  const nn::SlotTypes slots = {{"embed", weight(kVocab, kHidden)},
                               {"head", weight(kVocab, kHidden)},
                               {"rope.inv_freq", weight(2, kHidden / 2)}};
  nn::Builder b("layer", {.activation = DType::kF32, .kv = DType::kF32, .max = max}, slots);
  const ValueId x = nn::embed(b, "embed");
  const ValueId y = nn::attention(
      b, x, x, x,
      {.layer = "kv.0", .heads = 1, .kv_heads = 1, .head_dim = kHidden, .rotary_dim = kHidden});
  const ValueId logits = nn::lm_head(b, y, "head");
  return compile(std::move(b).finish(logits), device, {.mode = ComputeMode::kF32});
}

// A token is a letter.
Tokenizer letters() {
  std::string vocab;
  for (int i = 0; i < kVocab; ++i)
    vocab += fmt::format("{}\"{}\": {}", i == 0 ? "" : ", ",
                         static_cast<char>('A' + i % 26 + i / 26 * 32), i);
  return tokenizer_from_json(R"({"model": {"type": "BPE", "merges": [], "vocab": {)" + vocab +
                             R"(}}, "decoder": {"type": "ByteLevel"}})");
}

struct Setting {
  std::int64_t sequences = 1;
  std::int64_t length = 100;
  bool overlap = false;
  SamplingParams sampling{};
};

// So many sequences that have read their prompts and decode.
class Decoding {
 public:
  explicit Decoding(const Setting& setting)
      : compiled_(compile_layer(device_, most(setting))),
        weights_(compiled_.plan.weight_bytes()),
        executor_(
            compiled_.plan, device_, weights_, prepare_kernels(compiled_.plan, device_, {}),
            {.kv_pages = setting.sequences * compiled_.plan.max[Symbol::kPages], .progress = {}}) {
    info_.vocab = kVocab;
    info_.max_seq = longest(setting);
    info_.max_batch = setting.sequences;
    loop_.emplace(executor_, info_, &tokenizer_, EngineLoop::Options{.overlap = setting.overlap});
    for (std::int64_t s = 0; s < setting.sequences; ++s) submit(setting, s);
    while (loop_->last_step().decode_tokens < setting.sequences) loop_->step(sink_);
    for (std::int64_t i = 0; i < kWarmUp; ++i) loop_->step(sink_);
  }

  EngineLoop& loop() { return *loop_; }
  void step() {
    loop_->step(sink_);
    check(loop_->last_step().tokens == loop_->last_step().sequences, "all decode");
  }

 private:
  // Who has read its prompt decodes while the others read theirs.
  static std::int64_t longest(const Setting& s) {
    const std::int64_t reading = s.sequences * (s.length + kSpread) / (kPromptTokens - s.sequences);
    return s.length + kSpread + reading + kWarmUp + kSteps + 64;
  }
  DimValues most(const Setting& s) const {
    DimValues max;
    max[Symbol::kTokens] = std::max(kPromptTokens, s.sequences);
    max[Symbol::kSequences] = max[Symbol::kRows] = s.sequences;
    max[Symbol::kPages] = longest(s) / device_.page_tokens() + 1;
    return max;
  }
  // Prompts that share no page.
  void submit(const Setting& setting, std::int64_t number) {
    Request request{.sampling = setting.sampling};
    request.sampling.ignore_eos = true;
    request.sampling.seed = static_cast<std::uint64_t>(number);
    // Not all alike: ends of arrays at one place in their pages would share few lines of a cache.
    request.prompt.resize(static_cast<std::size_t>(setting.length + number % kSpread));
    for (std::size_t i = 0; i < request.prompt.size(); ++i)
      request.prompt[i] = static_cast<std::int32_t>(i * i % kVocab);
    request.prompt[0] = static_cast<std::int32_t>(number % kVocab);
    request.prompt[1] = static_cast<std::int32_t>(number / kVocab % kVocab);
    loop_->submit(std::move(request)).value_or_throw();
  }

  EmptyDevice device_;
  Compiled compiled_;
  std::vector<std::byte> weights_;
  Executor executor_;
  EngineInfo info_;
  Tokenizer tokenizer_ = letters();
  std::optional<EngineLoop> loop_;
  EngineLoop::EventSink sink_ = [](OutputEvent&& event) { benchmark::DoNotOptimize(event.text); };
};

// Microseconds, one a step.
class Microseconds {
 public:
  void add(double seconds) { values_.push_back(1e6 * seconds); }
  double median() {
    const auto middle = values_.begin() + std::ssize(values_) / 2;
    std::nth_element(values_.begin(), middle, values_.end());
    return *middle;
  }

 private:
  std::vector<double> values_;
};

void steps(benchmark::State& state, Setting setting) {
  using Clock = std::chrono::steady_clock;
  setting.sequences = state.range(0);
  setting.length = state.range(1);
  Decoding decoding(setting);
  Microseconds whole, schedule, run, commit, deliver;
  for (auto _ : state) {
    const Clock::time_point began = Clock::now();
    decoding.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    const StepStatistics& s = decoding.loop().last_step();
    whole.add(seconds);
    schedule.add(s.schedule_seconds);
    run.add(s.run_seconds);
    commit.add(s.commit_seconds);
    deliver.add(seconds - s.schedule_seconds - s.run_seconds - s.commit_seconds);
  }
  state.counters["p50_step"] = whole.median();
  state.counters["p50_schedule"] = schedule.median();
  state.counters["p50_run"] = run.median();
  state.counters["p50_commit"] = commit.median();
  state.counters["p50_deliver"] = deliver.median();
}

void all_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"sequences", "length"})->Iterations(kSteps)->Unit(benchmark::kMicrosecond);
  for (const std::int64_t sequences : {1, 16, 64, 256})
    for (const std::int64_t length : {100, 10000, 100000}) b->Args({sequences, length});
}

void one_length(benchmark::internal::Benchmark* b) {
  b->ArgNames({"sequences", "length"})->Iterations(kSteps)->Unit(benchmark::kMicrosecond);
  for (const std::int64_t sequences : {1, 16, 64, 256}) b->Args({sequences, 1000});
}

const SamplingParams kPenalties{.temperature = 0.8,
                                .repetition_penalty = 1.1,
                                .presence_penalty = 0.2,
                                .frequency_penalty = 0.1,
                                .stop = {"never", "ever"}};

BENCHMARK_CAPTURE(steps, greedy, Setting{.sampling = {.temperature = 0}})->Apply(all_sizes);
BENCHMARK_CAPTURE(steps, logprobs_5, Setting{.sampling = {.temperature = 0, .logprobs = 5}})
    ->Apply(one_length);
BENCHMARK_CAPTURE(steps, penalties, Setting{.sampling = kPenalties})->Apply(one_length);
// Run on its own thread, beside the texts of the step before: what is over is the hand-over.
BENCHMARK_CAPTURE(steps, overlapped, Setting{.overlap = true, .sampling = {.temperature = 0}})
    ->Apply(one_length);

}  // namespace
}  // namespace ingot

BENCHMARK_MAIN();
