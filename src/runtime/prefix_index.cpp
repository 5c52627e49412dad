#include "runtime/prefix_index.h"

#include "base/check.h"
#include "base/hash.h"

#include <algorithm>
#include <bit>

namespace ingot {

PrefixIndex::PrefixIndex(std::int64_t nodes, std::int64_t page_tokens)
    : page_tokens_(static_cast<std::size_t>(page_tokens)),
      nodes_(static_cast<std::size_t>(nodes)),
      tokens_(nodes_.size() * page_tokens_),
      table_(std::bit_ceil(2 * nodes_.size() + 1), kNoNode) {
  unused_.reserve(nodes_.size());
  for (auto n = static_cast<NodeId>(nodes_.size()); n > 0; --n) unused_.push_back(n - 1);
}

std::span<const std::int32_t> PrefixIndex::tokens_of(NodeId node) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(node) * page_tokens_, page_tokens_);
}

std::uint64_t PrefixIndex::hash_of(std::uint64_t parent,
                                   std::span<const std::int32_t> tokens) const {
  return hash64(std::as_bytes(tokens)) ^ (parent * 0x9e3779b97f4a7c15ULL);
}

NodeId PrefixIndex::find(std::uint64_t parent, std::span<const std::int32_t> tokens) const {
  check(tokens.size() == page_tokens_, "a whole page of tokens");
  const std::uint64_t hash = hash_of(parent, tokens);
  for (std::size_t at = home(hash); table_[at] != kNoNode; at = (at + 1) & (table_.size() - 1)) {
    const PrefixNode& node = nodes_[static_cast<std::size_t>(table_[at])];
    if (node.hash == hash && node.parent == parent &&
        std::ranges::equal(tokens_of(table_[at]), tokens))
      return table_[at];
  }
  return kNoNode;
}

NodeId PrefixIndex::insert(std::uint64_t parent, std::span<const std::int32_t> tokens) {
  if (unused_.empty()) return kNoNode;
  const NodeId id = unused_.back();
  unused_.pop_back();
  nodes_[static_cast<std::size_t>(id)] = {
      .serial = new_serial(), .parent = parent, .hash = hash_of(parent, tokens)};
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(
                                                  static_cast<std::size_t>(id) * page_tokens_));
  std::size_t at = home(nodes_[static_cast<std::size_t>(id)].hash);
  while (table_[at] != kNoNode) at = (at + 1) & (table_.size() - 1);
  table_[at] = id;
  return id;
}

void PrefixIndex::erase(NodeId node) {
  check(at(node).serial != 0, "a page forgotten twice");
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = home(at(node).hash);
  while (table_[hole] != node) hole = (hole + 1) & mask;
  // What was pushed past the hole moves back (Knuth, TAOCP 6.4, algorithm R): no tombstones, so
  // that the table does not slow down with time.
  for (std::size_t next = (hole + 1) & mask; table_[next] != kNoNode; next = (next + 1) & mask) {
    const std::size_t wanted = home(nodes_[static_cast<std::size_t>(table_[next])].hash);
    if (((next - wanted) & mask) < ((next - hole) & mask)) continue;
    table_[hole] = table_[next];
    hole = next;
  }
  table_[hole] = kNoNode;
  at(node) = {};
  unused_.push_back(node);
}

void PrefixIndex::check_integrity() const {
  std::size_t entries = 0;
  for (const NodeId node : table_) entries += node != kNoNode;
  check(entries + unused_.size() == nodes_.size(), "a node is in the table or unused");
  for (NodeId n = 0; n < static_cast<NodeId>(nodes_.size()); ++n)
    if (at(n).serial != 0)
      check(find(at(n).parent, tokens_of(n)) == n, "a page is not found under what it holds");
}

}  // namespace ingot
