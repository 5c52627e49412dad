#include "passes/memory_plan.h"

#include "base/check.h"

#include <algorithm>
#include <numeric>

namespace ingot {

namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool overlap(const Interval& a, const Interval& b) {
  return a.first <= b.last && b.first <= a.last;
}

// First fit in the given order.
Placement first_fit(std::span<const Interval> intervals, const std::vector<std::size_t>& order) {
  Placement result;
  result.offsets.assign(intervals.size(), -1);
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t i : order) {
    const std::int64_t need = aligned(intervals[i].bytes);
    std::int64_t at = 0;
    for (const std::size_t p : placed) {
      if (!overlap(intervals[i], intervals[p])) continue;
      if (result.offsets[p] - at >= need) break;
      at = std::max(at, result.offsets[p] + aligned(intervals[p].bytes));
    }
    result.offsets[i] = at;
    result.total = std::max(result.total, at + need);
    const auto where =
        std::upper_bound(placed.begin(), placed.end(), i, [&](std::size_t a, std::size_t b) {
          return std::pair(result.offsets[a], a) < std::pair(result.offsets[b], b);
        });
    placed.insert(where, i);
  }
  return result;
}

std::int64_t most_alive(std::span<const Interval> intervals) {
  std::vector<std::pair<std::int32_t, std::int64_t>> changes;  // (time * 2 + is_end, bytes)
  for (const Interval& i : intervals) {
    changes.emplace_back(i.first * 2, aligned(i.bytes));
    changes.emplace_back(i.last * 2 + 1, -aligned(i.bytes));
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [time, bytes] : changes) most = std::max(most, now += bytes);
  return most;
}

// Nodes that depend on the input `rows`, directly or not. They must be the graph's tail.
NodeId find_head(const Graph& graph) {
  const auto count = static_cast<NodeId>(graph.nodes.size());
  const ValueId rows = graph.find("rows");
  if (rows == kNone) return count;
  std::vector<char> dependent(graph.values.size(), 0);
  dependent[static_cast<std::size_t>(rows)] = 1;
  NodeId begin = count;
  for (NodeId n = 0; n < count; ++n) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    const bool depends = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId o) {
      return dependent[static_cast<std::size_t>(o)] != 0;
    });
    if (depends && begin == count) begin = n;
    check(depends || begin == count, "the head is not the tail of the graph");
    if (depends)
      for (const ValueId r : node.results) dependent[static_cast<std::size_t>(r)] = 1;
  }
  return begin;
}

// Lifetimes by value, with in-place pairs joined into their first operand's interval.
struct Lifetimes {
  std::vector<int> interval_of;  // by ValueId; -1: not in the arena
  std::vector<Interval> intervals;
};

Lifetimes lifetimes(const Graph& graph, NodeId head_begin) {
  const auto steps = static_cast<std::int32_t>(graph.nodes.size());
  std::vector<std::int32_t> last_read(graph.values.size(), -1);
  for (std::int32_t n = 0; n < steps; ++n)
    for (const ValueId o : graph.nodes[static_cast<std::size_t>(n)].operands)
      last_read[static_cast<std::size_t>(o)] = n;
  for (const ValueId o : graph.outputs) last_read[static_cast<std::size_t>(o)] = steps;

  Lifetimes result;
  result.interval_of.assign(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind != ValueKind::kInput) continue;
    result.interval_of[v] = static_cast<int>(result.intervals.size());
    const auto bytes = static_cast<std::int64_t>(graph.values[v].type.bytes_at(graph.max));
    result.intervals.push_back({bytes, 0, steps});
  }
  for (std::int32_t n = 0; n < steps; ++n) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    for (std::size_t r = 0; r < node.results.size(); ++r) {
      const auto v = static_cast<std::size_t>(node.results[r]);
      const auto bytes = static_cast<std::int64_t>(graph.values[v].type.bytes_at(graph.max));
      std::int32_t last = std::max(last_read[v], n);
      // The head is run again for the next slice: what the body left for it must survive.
      if (n < head_begin && last >= head_begin) last = steps;
      for (const auto& [operand, into] : node.op->in_place) {
        if (into != static_cast<int>(r) || operand >= static_cast<int>(node.operands.size()))
          continue;
        const auto o = static_cast<std::size_t>(node.operands[static_cast<std::size_t>(operand)]);
        const int shared = result.interval_of[o];
        const bool dies_here =
            shared >= 0 && graph.values[o].kind == ValueKind::kActivation && last_read[o] == n &&
            result.intervals[static_cast<std::size_t>(shared)].last == n &&
            std::count(node.operands.begin(), node.operands.end(), static_cast<ValueId>(o)) == 1;
        if (!dies_here || result.intervals[static_cast<std::size_t>(shared)].bytes < bytes)
          continue;
        result.interval_of[v] = shared;
        result.intervals[static_cast<std::size_t>(shared)].last = last;
        break;
      }
      if (result.interval_of[v] >= 0) continue;
      result.interval_of[v] = static_cast<int>(result.intervals.size());
      result.intervals.push_back({bytes, n, last});
    }
  }
  return result;
}

}  // namespace

Placement place(std::span<const Interval> intervals) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto by = [&](auto&& key) {
    std::vector<std::size_t> sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
    return first_fit(intervals, sorted);
  };
  Placement best = by([&](std::size_t i) { return intervals[i].bytes; });
  Placement other = by([&](std::size_t i) {
    return intervals[i].bytes * (intervals[i].last - intervals[i].first + 1);
  });
  if (other.total < best.total) best = std::move(other);
  best.lower_bound = most_alive(intervals);
  return best;
}

MemoryPlan plan_memory(const Graph& graph) {
  MemoryPlan plan;
  plan.head_begin = find_head(graph);
  const Lifetimes lives = lifetimes(graph, plan.head_begin);
  const Placement placement = place(lives.intervals);
  plan.offsets.assign(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (lives.interval_of[v] >= 0)
      plan.offsets[v] = placement.offsets[static_cast<std::size_t>(lives.interval_of[v])];
  plan.arena_bytes = placement.total;
  plan.lower_bound = placement.lower_bound;
  return plan;
}

}  // namespace ingot
