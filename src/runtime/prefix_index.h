#pragma once

#include "runtime/block_pool.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;

// What a page of KV cache holds: these tokens after that page. The serial is the name of a page's
// contents and of all before it; it is given once and never again, so what a chain of serials says
// stays true when pages in its middle are gone.
struct PrefixNode {
  std::uint64_t serial = 0;  // 0: not in use
  std::uint64_t parent = 0;  // serial of the page before it, or of the root
  std::uint64_t hash = 0;
  PageId page = kNoPage;    // on the device, or
  std::int32_t host = -1;   // a slot of host memory
  std::int32_t root = -1;   // index of its root
  std::uint8_t level = 0;   // of priority
  double expires = 0;       // seconds; from then on the level is the ordinary one; 0: never
  std::uint64_t since = 0;  // counts up: when it began to wait
  NodeId older = kNoNode;   // in the list that it waits in
  NodeId newer = kNoNode;

  // What it holds is known, and lies nowhere any more.
  bool is_name() const { return page == kNoPage && host < 0; }
};

// Finds pages by what they hold: a hash finds the candidates, the parent's serial and all tokens
// decide, so two texts never share a page by accident. Allocates nothing after construction.
class PrefixIndex {
 public:
  PrefixIndex(std::int64_t nodes, std::int64_t page_tokens);

  // The page of `tokens` (page_tokens of them) after `parent`, or kNoNode.
  NodeId find(std::uint64_t parent, std::span<const std::int32_t> tokens) const;
  // Enters what find() does not find; kNoNode when every node is in use. The node has a new serial.
  NodeId insert(std::uint64_t parent, std::span<const std::int32_t> tokens);
  void erase(NodeId node);

  std::uint64_t new_serial() { return ++last_serial_; }
  PrefixNode& at(NodeId node) { return nodes_[static_cast<std::size_t>(node)]; }
  const PrefixNode& at(NodeId node) const { return nodes_[static_cast<std::size_t>(node)]; }
  std::int64_t capacity() const { return static_cast<std::int64_t>(nodes_.size()); }
  std::int64_t size() const { return capacity() - static_cast<std::int64_t>(unused_.size()); }
  // Throws Error{kBug} unless every node in use is found under its own contents.
  void check_integrity() const;

 private:
  std::span<const std::int32_t> tokens_of(NodeId node) const;
  std::uint64_t hash_of(std::uint64_t parent, std::span<const std::int32_t> tokens) const;
  std::size_t home(std::uint64_t hash) const { return hash & (table_.size() - 1); }

  std::size_t page_tokens_;
  std::vector<PrefixNode> nodes_;
  std::vector<std::int32_t> tokens_;  // [nodes, page_tokens]
  std::vector<NodeId> unused_;
  std::vector<NodeId> table_;  // open addressing, linear probing, a power of two
  std::uint64_t last_serial_ = 0;
};

}  // namespace ingot
