#include "llm/memory_fit.h"

#include "builder/build_engine.h"
#include "llm/model.h"
#include "llm/resolve.h"
#include "plan/kv_reach.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace ingot {

namespace {

constexpr std::int64_t kMostSequences = 4096;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t total_bytes(const Plan& plan, const Device& device, std::int64_t pages) {
  return memory_table(plan, device, pages).back().bytes;
}

// Tokens of one sequence beside everything but the KV pool, at most `most`; 0: not even a page.
std::int64_t longest_in(const Plan& plan, const Device& device, std::uint64_t cap,
                        std::int64_t most) {
  const std::uint64_t fixed = total_bytes(plan, device, 0);
  const std::uint64_t page = std::max<std::uint64_t>(1, memory_needs(plan, device).page);
  if (fixed + page > cap) return 0;
  return longest_sequence(plan, static_cast<std::int64_t>((cap - fixed) / page), most);
}

// The largest number below `beyond` that holds, 0 for none; what holds, holds for all below it.
template <typename Holds>
std::int64_t largest_below(std::int64_t beyond, const Holds& holds) {
  std::int64_t largest = 0;
  while (largest + 1 < beyond) {
    const std::int64_t half = (largest + beyond) / 2;
    const std::int64_t grown = largest == 0 ? 1 : largest * 2;
    const std::int64_t next = std::min(half, grown);
    (holds(next) ? largest : beyond) = next;
  }
  return largest;
}

Plan plan_with(const std::string& model, const Device& device, OpenOptions options,
               std::int64_t max_batch, std::int64_t max_seq) {
  options.build.max_batch = max_batch;
  options.build.max_seq = max_seq;
  return compile_model(model, device, options).compiled.plan;
}

}  // namespace

std::uint64_t least_memory(const Plan& plan, const Device& device, std::int64_t tokens) {
  return total_bytes(plan, device, sequence_pages(plan, tokens));
}

std::string memory_option(std::uint64_t bytes) {
  return fmt::format("--memory {}M", (bytes + kMiB - 1) / kMiB);
}

FitReport find_fit(const std::string& model, const ModelContents& contents, const Device& device,
                   const OpenOptions& options, std::uint64_t cap) {
  const Plan& plan = contents.plan;
  const std::int64_t max_seq = contents.info.max_seq;
  FitReport fit{.longest = longest_in(plan, device, cap, max_seq)};
  const bool engine = is_engine(model);
  const auto holds = [&](std::int64_t n) {
    const std::int64_t pages = n * sequence_pages(plan, max_seq);
    return total_bytes(engine ? plan : plan_with(model, device, options, n, options.build.max_seq),
                       device, pages) <= cap;
  };
  fit.sequences = largest_below(engine ? contents.info.max_batch + 1 : kMostSequences + 1, holds);
  return fit;
}

std::string nearest_that_starts(const std::string& model, const ModelContents& contents,
                                const Device& device, const OpenOptions& options,
                                const StartNeeds& needs) {
  const std::uint64_t cap = needs.cap > needs.others ? needs.cap - needs.others : 0;
  const std::int64_t max_batch = contents.info.max_batch, max_seq = contents.info.max_seq;
  std::vector<std::string> ways;
  const auto starts = [&](const Plan& plan, std::int64_t tokens) {
    return least_memory(plan, device, tokens) <= cap;
  };
  const auto shorter = [&](std::int64_t batch, const char* words) {
    const Plan whole = plan_with(model, device, options, batch, max_seq);
    const std::int64_t seq = longest_in(whole, device, cap, needs.tokens - 1);
    if (seq > 0 && starts(plan_with(model, device, options, batch, seq), seq))
      ways.push_back(fmt::format("{}--max-seq {}", words, seq));
  };
  if (!is_engine(model)) {
    if (needs.tokens > 1) shorter(max_batch, "");
    const std::int64_t batch = largest_below(max_batch, [&](std::int64_t n) {
      return starts(plan_with(model, device, options, n, max_seq), needs.tokens);
    });
    if (batch > 0) ways.push_back(fmt::format("--max-batch {}", batch));
    if (ways.empty() && needs.tokens > 1) shorter(1, "--max-batch 1 with ");
  }
  const std::uint64_t least = least_memory(contents.plan, device, needs.tokens) + needs.others;
  if (needs.host > 0 && least - needs.host <= needs.cap) {
    const std::uint64_t room = (needs.cap - (least - needs.host)) / kMiB * kMiB;
    ways.push_back(room >= memory_needs(contents.plan, device).page
                       ? fmt::format("--host-memory {}M", room / kMiB)
                       : "no --host-memory");
  }
  const std::uint64_t total = device.info().total_memory;
  if (ways.empty() || total == 0 || least <= total) ways.push_back(memory_option(least));
  std::string text = ways.front();
  for (std::size_t i = 1; i < ways.size(); ++i)
    text += (i + 1 < ways.size() ? ", " : " or ") + ways[i];
  return text;
}

}  // namespace ingot
