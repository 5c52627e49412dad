#include "tests/runtime/cache_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace ingot::test {

namespace {

std::uint64_t mix(std::uint64_t before, std::int32_t token) {
  std::uint64_t z = (before ^ static_cast<std::uint64_t>(token)) + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  return z ^ (z >> 27);
}

std::int32_t token_at(const Sequence& s, std::size_t position) {
  return position < s.tokens.size() ? s.tokens[position] : s.drafts[position - s.tokens.size()];
}

}  // namespace

CacheModel::CacheModel(const SchedulerLimits& limits)
    : limits_(limits),
      device_(static_cast<std::size_t>(limits.kv_pages * limits.page_tokens)),
      host_(static_cast<std::size_t>(limits.host_pages * limits.page_tokens)),
      table_(static_cast<std::size_t>(limits.max_sequences * limits.max_pages), -1) {}

std::string CacheModel::run(const ScheduledStep& step, bool fails) {
  if (std::string wrong = check_arrays(step); !wrong.empty()) return wrong;
  const auto& copies = step.batch.copies;
  const std::size_t last = fails ? copies.size() / 2 : copies.size();
  for (std::size_t i = 0; i < last; ++i) {
    const PageCopy& copy = copies[i];
    auto& from = copy.kind == PageCopy::Kind::kFromHost ? host_ : device_;
    auto& to = copy.kind == PageCopy::Kind::kToHost ? host_ : device_;
    std::copy_n(from.begin() + copy.from * limits_.page_tokens, limits_.page_tokens,
                to.begin() + copy.to * limits_.page_tokens);
    ++moved_;
  }
  if (fails) return {};
  if (std::string wrong = check_table(step); !wrong.empty()) return wrong;
  std::size_t at = 0;
  for (const ScheduledStep::Entry& entry : step.entries) {
    std::uint64_t print = 0;
    for (std::size_t p = 0; p < entry.begin + entry.count; ++p) {
      print = mix(print, token_at(*entry.sequence, p));
      if (p >= entry.begin) device_[static_cast<std::size_t>(step.batch.slots[at++])] = print;
    }
  }
  for (const ScheduledStep::Entry& entry : step.entries)
    if (std::string wrong = read_back(entry, entry.sequence->row); !wrong.empty()) return wrong;
  return {};
}

// What every step must satisfy, whatever came before.
std::string CacheModel::check_arrays(const ScheduledStep& step) const {
  const Batch& b = step.batch;
  if (b.tokens() > limits_.max_tokens) return "more tokens than a step holds";
  if (b.sequences() > limits_.max_sequences) return "more sequences than a step holds";
  if (std::ssize(b.query_start) != b.sequences() + 1 || b.query_start.back() != b.tokens())
    return "query_start does not cover the tokens";
  if (b.rows.size() != step.rows.size()) return "rows without owners";
  if (!std::ranges::is_sorted(b.rows)) return "rows do not ascend";
  if (std::set(b.slots.begin(), b.slots.end()).size() != b.slots.size())
    return "two tokens in one slot";
  std::int64_t tokens = 0;
  for (const ScheduledStep::Entry& e : step.entries) {
    const Sequence& s = *e.sequence;
    const auto start = b.query_start.at(static_cast<std::size_t>(s.row));
    const auto end = b.query_start.at(static_cast<std::size_t>(s.row) + 1);
    if (start != tokens || end - start != static_cast<std::int32_t>(e.count) || e.begin != s.cached)
      return "a sequence's stretch is not its own";
    if (b.context_len[static_cast<std::size_t>(s.row)] !=
        static_cast<std::int32_t>(e.begin + e.count))
      return "context_len is wrong";
    for (std::size_t i = 0; i < e.count; ++i) {
      const auto at = static_cast<std::size_t>(tokens) + i;
      if (b.ids[at] != token_at(s, e.begin + i) ||
          b.positions[at] != static_cast<std::int32_t>(e.begin + i))
        return "ids or positions are wrong";
    }
    tokens += static_cast<std::int64_t>(e.count);
  }
  return tokens == b.tokens() ? "" : "tokens of nobody";
}

std::string CacheModel::check_table(const ScheduledStep& step) {
  const Batch& b = step.batch;
  for (const TableChange& change : b.table_changes)
    if (change.row >= b.sequences() || change.first + change.count > b.pages)
      return "a change outside the block table";
  for (const TableChange& change : b.table_changes)
    for (std::int32_t i = change.first; i < change.first + change.count; ++i)
      table_[static_cast<std::size_t>(change.row * b.pages + i)] =
          b.block_table[static_cast<std::size_t>(change.row * b.pages + i)];
  for (const ScheduledStep::Entry& e : step.entries) {
    const auto pages = (e.begin + e.count + static_cast<std::size_t>(limits_.page_tokens) - 1) /
                       static_cast<std::size_t>(limits_.page_tokens);
    for (std::size_t p = 0; p < pages; ++p) {
      if (e.sequence->chain.pages[p] == kNoPage) continue;
      const auto at = static_cast<std::size_t>(e.sequence->row * b.pages) + p;
      if (table_[at] != b.block_table[at]) return "a change of the block table was not told";
    }
  }
  return {};
}

// Every position that the last token of the step sees holds what the sequence's own tokens make.
std::string CacheModel::read_back(const ScheduledStep::Entry& e, std::int32_t row) const {
  const std::size_t end = e.begin + e.count;
  const auto window = static_cast<std::size_t>(limits_.reach.window);
  // The first token of the step sees furthest back.
  const std::size_t first = window > 0 && e.begin + 1 > window ? e.begin + 1 - window : 0;
  const auto sinks = static_cast<std::size_t>(limits_.reach.sink_tokens);
  std::uint64_t print = 0;
  for (std::size_t p = 0; p < end; ++p) {
    print = mix(print, token_at(*e.sequence, p));
    if (p < first && p >= sinks) continue;
    const auto page = table_[static_cast<std::size_t>(row * limits_.max_pages) +
                             p / static_cast<std::size_t>(limits_.page_tokens)];
    const auto slot = static_cast<std::size_t>(page * limits_.page_tokens) +
                      p % static_cast<std::size_t>(limits_.page_tokens);
    if (device_.at(slot) != print)
      return fmt::format("position {} of {} reads what is not its own", p, end);
  }
  return {};
}

}  // namespace ingot::test
