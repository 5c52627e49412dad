#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

using PageId = std::int32_t;
inline constexpr PageId kNoPage = -1;

// The books of the KV cache's memory: which pages are free, how often each is referenced. A page
// here is that page in every layer.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t pages);

  std::int64_t capacity() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  std::int32_t references(PageId page) const;
  // A page with one reference, or kNoPage.
  [[nodiscard]] PageId try_allocate();
  // A page that is kept (no reference, not free) is in use again.
  void add_reference(PageId page);
  // Drops one reference; true when it was the last. The page is kept then: whoever asked gives it
  // back with free() when its contents are of no use.
  [[nodiscard]] bool drop_reference(PageId page);
  // A page without references is free.
  void free(PageId page);

  // Throws Error{kBug} unless every reference is accounted for (`counted`, by page) and every page
  // is free, or kept by somebody (`kept`, by page), or referenced, and only one of these.
  void check_integrity(std::span<const std::int32_t> counted, std::span<const char> kept) const;

 private:
  std::vector<std::int32_t> references_;
  std::vector<PageId> free_;  // a stack: the page freed last is warm
};

}  // namespace ingot
