#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

// When a buffer is alive: from the step that writes it to the last that reads it, both included.
struct Interval {
  std::int64_t bytes = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
};

struct Placement {
  std::vector<std::int64_t> offsets;  // by interval
  std::int64_t total = 0;
  std::int64_t lower_bound = 0;  // the most that is alive at once
};

inline constexpr std::int64_t kArenaAlignment = 256;

// Offsets such that buffers alive at the same time do not overlap. Greedy by size, then by area,
// first fit; the better of the two. Deterministic.
Placement place(std::span<const Interval> intervals);

// Where every activation and input of a graph lies in one arena, at the symbols' maxima (sizes are
// monotone, so the offsets hold for every smaller step). -1 for values that are not in the arena.
struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // by ValueId
  std::int64_t arena_bytes = 0;
  std::int64_t lower_bound = 0;
  NodeId head_begin = 0;  // first node that depends on `rows`
};

// Inputs live throughout (the executor writes them before the step). What the head reads of the
// body lives to the end, since the head runs once for every slice of rows.
MemoryPlan plan_memory(const Graph& graph);

}  // namespace ingot
