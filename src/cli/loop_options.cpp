#include "cli/loop_options.h"

#include "base/error.h"
#include "cli/options.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace ingot::cli {

namespace {

constexpr std::pair<std::string_view, SchedulerPolicy> kPolicies[] = {
    {"max-utilization", SchedulerPolicy::kMaxUtilization},
    {"guaranteed-no-evict", SchedulerPolicy::kGuaranteedNoEvict},
    {"expected-length", SchedulerPolicy::kExpectedLength}};

}  // namespace

void LoopOptions::declare(Command& c) {
  // expected-length is taken too, and is not told: it wins nowhere (docs/performance.md).
  c.option("--policy", policy,
           "what starts while others run. max-utilization: as soon as its prompt fits, and the\n"
           "youngest is paused when the KV cache is full; guaranteed-no-evict: only what surely\n"
           "fits to its end, and nobody is paused (default: max-utilization)");
  c.option(
      "--host-memory", host_memory,
      "host memory for KV cache that does not fit, as 4G; on the CPU it counts under --memory\n"
      "(default: none)");
  c.option("--stats", stats, "file that gets a line of JSON for each step and each request");
}

void LoopOptions::apply(OpenOptions& open) const {
  const auto known = std::ranges::find_if(kPolicies, [&](auto& p) { return p.first == policy; });
  if (known == std::end(kPolicies))
    fail(ErrorCode::kUsage, "[usage] --policy {}: wanted max-utilization or guaranteed-no-evict",
         policy);
  open.policy = known->second;
  if (host_memory) open.host_memory = parse_size(*host_memory, "--host-memory");
}

CountedLoop::CountedLoop(const LoopOptions& options) {
  if (options.stats == "-")
    fail(ErrorCode::kUsage, "[usage] --stats -: wanted the name of a file, not standard output");
  if (options.stats) file_ = std::make_unique<StatisticsFile>(*options.stats);
}

std::vector<OutputEvent> CountedLoop::step(EngineLoop& loop) {
  if (!file_) return loop.step();
  const std::int64_t before = loop.last_step().step;
  std::vector<OutputEvent> events = loop.step();
  if (loop.last_step().step != before) file_->step(loop.last_step());
  for (const OutputEvent& event : events)
    if (event.last) file_->request(event);
  return events;
}

void CountedLoop::close(const EngineLoop& loop) {
  if (file_) file_->close(loop.statistics());
}

}  // namespace ingot::cli
