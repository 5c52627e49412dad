// What statistics cost beside a step: a line of the file for a step and for a request. Without a
// file a step fills its struct and nothing else, which the scheduler's times hold already.
#include "llm/statistics_file.h"

#include <benchmark/benchmark.h>

#include <cstdint>

namespace ingot {
namespace {

void step_line(benchmark::State& state) {
  StatisticsFile file("/dev/null");
  StepStatistics step{.tokens = 256, .decode_tokens = 256, .sequences = 256, .running = 256};
  step.free_pages = 10000;
  step.schedule_seconds = 12e-6;
  step.run_seconds = 18.345e-3;
  step.commit_seconds = 31e-6;
  for (auto _ : state) {
    ++step.step;
    file.step(step);
  }
}
BENCHMARK(step_line);

void request_line(benchmark::State& state) {
  StatisticsFile file("/dev/null");
  OutputEvent last{.last = true, .finish = FinishReason::kLength};
  last.statistics = {.queue_seconds = 0.12,
                     .first_token_seconds = 0.5,
                     .total_seconds = 12.25,
                     .token_gap_mean = 0.0187,
                     .token_gap_max = 0.031,
                     .prompt_tokens = 4000,
                     .cached_tokens = 3584,
                     .generated_tokens = 512,
                     .pages = 282};
  for (auto _ : state) {
    ++last.id;
    file.request(last);
  }
}
BENCHMARK(request_line);

}  // namespace
}  // namespace ingot

BENCHMARK_MAIN();
