#pragma once

#include "ingot/request.h"
#include "runtime/block_pool.h"

#include <cstdint>
#include <vector>

namespace ingot {

// One request's tokens, pages and place in the queue. Owned by the scheduler, touched by one
// thread.
struct Sequence {
  RequestId id = 0;
  SamplingParams sampling;
  std::vector<std::int32_t> tokens;  // prompt and answer
  std::size_t prompt_tokens = 0;
  std::size_t limit = 0;      // most tokens it may ever hold
  std::size_t cached = 0;     // tokens whose K and V are in its pages
  std::vector<PageId> pages;  // page i holds tokens i * page_tokens ..
  std::int32_t rope_row = 0;
  std::uint64_t seed = 0;

  std::size_t generated() const { return tokens.size() - prompt_tokens; }
};

}  // namespace ingot
