#include "plan/kv_reach.h"

#include <algorithm>

namespace ingot {

std::int64_t KvReach::most_held(std::int64_t pages, std::int64_t page_tokens,
                                std::int64_t step_tokens) const {
  if (window == 0) return pages;
  return std::min(pages, sink_pages(page_tokens) + (window + step_tokens) / page_tokens + 2);
}

KvReach kv_reach(const Plan& plan) {
  KvReach reach;
  for (const PlanState& state : plan.states) {
    if (state.spec.window == 0) return {};
    reach.window = std::max(reach.window, state.spec.window);
    reach.sink_tokens = std::max(reach.sink_tokens, state.spec.sink_tokens);
  }
  return reach;
}

std::int64_t sequence_pages(const Plan& plan, std::int64_t tokens) {
  const std::int64_t pages = (tokens + plan.page_tokens - 1) / plan.page_tokens;
  return kv_reach(plan).most_held(pages, plan.page_tokens, plan.max[Symbol::kTokens]);
}

std::int64_t longest_sequence(const Plan& plan, std::int64_t kv_pages, std::int64_t max_seq) {
  if (sequence_pages(plan, max_seq) <= kv_pages) return max_seq;
  return std::min(max_seq, kv_pages * plan.page_tokens);
}

}  // namespace ingot
