#include "text/trie.h"

#include <algorithm>
#include <deque>

namespace ingot {
namespace {

using Keys = std::vector<std::pair<std::string_view, std::int32_t>>;

struct Range {  // keys [begin, end) share their first `depth` bytes, which lead to `node`
  std::size_t begin, end, depth;
  std::uint32_t node;
};

class Builder {
 public:
  explicit Builder(const Keys& keys) : keys_(keys) { grow(1024); }

  std::vector<TrieNode> run() {
    nodes_[0].parent = 0;  // in use; no step leads to it, for base is at least 1
    std::deque<Range> queue{{0, keys_.size(), 0, 0}};
    while (!queue.empty()) {
      const Range range = queue.front();
      queue.pop_front();
      expand(range, queue);
    }
    while (nodes_.size() > 1 && nodes_.back().parent == Trie::kNoParent) nodes_.pop_back();
    return std::move(nodes_);
  }

 private:
  void grow(std::size_t size) { nodes_.resize(size, {0, Trie::kNoParent, -1}); }

  void expand(const Range& range, std::deque<Range>& queue) {
    std::size_t begin = range.begin;
    while (begin < range.end && keys_[begin].first.size() == range.depth)
      nodes_[range.node].value = keys_[begin++].second;
    if (begin == range.end) return;
    children_.clear();
    for (std::size_t i = begin; i < range.end;) {
      const char byte = keys_[i].first[range.depth];
      std::size_t j = i;
      while (j < range.end && keys_[j].first[range.depth] == byte) ++j;
      children_.push_back({i, j, range.depth + 1, static_cast<unsigned char>(byte)});
      i = j;
    }
    const std::uint32_t base = find_base();
    nodes_[range.node].base = base;
    for (Range& child : children_) {
      child.node += base;
      nodes_[child.node].parent = range.node;
      queue.push_back(child);
    }
  }

  // A base for which all children's places are free. `first_free_` moves past places that are
  // nearly all taken, which keeps the search short.
  std::uint32_t find_base() {
    const std::uint32_t first = children_.front().node;
    std::uint32_t place = std::max(first_free_, first + 1);
    std::uint32_t taken = 0;
    const std::uint32_t from = place;
    for (;; ++place) {
      if (place + 512 > nodes_.size()) grow(nodes_.size() * 2);
      if (nodes_[place].parent != Trie::kNoParent) {
        ++taken;
        continue;
      }
      const std::uint32_t base = place - first;
      if (std::all_of(children_.begin(), children_.end(), [&](const Range& child) {
            return nodes_[base + child.node].parent == Trie::kNoParent;
          }))
        break;
      if (place - from > 4096) {  // give the tail a try; a few holes stay
        first_free_ = place;
      }
    }
    if (taken * 20 >= (place - from + 1) * 19) first_free_ = place;
    return place - first;
  }

  const Keys& keys_;
  std::vector<TrieNode> nodes_;
  std::vector<Range> children_;  // node holds the byte until placed
  std::uint32_t first_free_ = 1;
};

}  // namespace

std::vector<TrieNode> build_trie(Keys keys) {
  std::sort(keys.begin(), keys.end());
  return Builder(keys).run();
}

}  // namespace ingot
