#pragma once

#include "plan/plan.h"

#include <cstdint>

namespace ingot {

// What any layer of a model sees of a sequence: the last `window` tokens and the first
// `sink_tokens`. Pages of nothing else have to be there.
struct KvReach {
  std::int64_t window = 0;  // the token itself included; 0: all
  std::int64_t sink_tokens = 0;

  std::int64_t sink_pages(std::int64_t page_tokens) const {
    return window == 0 ? 0 : (sink_tokens + page_tokens - 1) / page_tokens;
  }
  // Most pages that a sequence of `pages` holds at once: those seen, and those that a step of
  // `step_tokens` may write before the window passes them.
  std::int64_t most_held(std::int64_t pages, std::int64_t page_tokens,
                         std::int64_t step_tokens) const;
};

// The furthest reach of all layers.
KvReach kv_reach(const Plan& plan);

// Most pages that a sequence of so many tokens holds at once.
std::int64_t sequence_pages(const Plan& plan, std::int64_t tokens);
// Tokens of the longest sequence, of `max_seq` at most, that a cache of so many pages can hold.
std::int64_t longest_sequence(const Plan& plan, std::int64_t kv_pages, std::int64_t max_seq);

}  // namespace ingot
