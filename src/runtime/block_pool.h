#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

using PageId = std::int32_t;

// The books of the KV cache: which pages are free, how often each is referenced. A page here is
// that page in every layer.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t pages);

  std::int64_t capacity() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  // `count` pages, each with one reference, appended to `pages`; or nothing and false.
  [[nodiscard]] bool try_allocate(std::int64_t count, std::vector<PageId>& pages);
  void add_reference(PageId page);
  // Drops one reference of each; pages without any are free again.
  void release(std::span<const PageId> pages);

  // Throws Error{kBug} unless every page is free or referenced, never both, and `holders` (page
  // lists of all sequences) account for every reference.
  void check_integrity(std::span<const std::vector<PageId>* const> holders) const;

 private:
  std::vector<std::int32_t> references_;
  std::vector<PageId> free_;  // a stack: the page freed last is warm
};

}  // namespace ingot
