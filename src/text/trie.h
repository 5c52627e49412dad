#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

// A node of a double-array trie: child `byte` of node s stands at base[s] + byte if its parent is
// s.
struct TrieNode {
  std::uint32_t base;
  std::uint32_t parent;  // kNoParent: unused
  std::int32_t value;    // of the key that ends here; -1: none
};

// A view of a trie in an image. Safe for any content: a step that leaves the array finds nothing.
class Trie {
 public:
  static constexpr std::uint32_t kNoParent = 0xffffffffu;
  static constexpr std::uint32_t kDead = 0xffffffffu;

  Trie() = default;
  explicit Trie(std::span<const TrieNode> nodes) : nodes_(nodes) {}

  bool empty() const { return nodes_.size() < 2; }
  // Node of the child, or kDead. The root is node 0; `node` must come from here.
  std::uint32_t step(std::uint32_t node, unsigned char byte) const {
    const std::uint64_t next = std::uint64_t{nodes_[node].base} + byte;
    if (next >= nodes_.size() || nodes_[next].parent != node) return kDead;
    return static_cast<std::uint32_t>(next);
  }
  std::int32_t value(std::uint32_t node) const { return nodes_[node].value; }

 private:
  std::span<const TrieNode> nodes_;
};

// Builds the nodes from distinct, non-empty keys (any order); value >= 0.
std::vector<TrieNode> build_trie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

}  // namespace ingot
