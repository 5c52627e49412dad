#include "runtime/block_pool.h"

#include "base/check.h"

namespace ingot {

BlockPool::BlockPool(std::int64_t pages) : references_(static_cast<std::size_t>(pages), 0) {
  free_.reserve(references_.size());
  for (std::int64_t p = pages - 1; p >= 0; --p) free_.push_back(static_cast<PageId>(p));
}

std::int32_t BlockPool::references(PageId page) const {
  return references_.at(static_cast<std::size_t>(page));
}

PageId BlockPool::try_allocate() {
  if (free_.empty()) return kNoPage;
  const PageId page = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void BlockPool::add_reference(PageId page) {
  ++references_.at(static_cast<std::size_t>(page));
}

bool BlockPool::drop_reference(PageId page) {
  std::int32_t& count = references_.at(static_cast<std::size_t>(page));
  check(count > 0, "a page released twice");
  return --count == 0;
}

void BlockPool::free(PageId page) {
  check(references(page) == 0, "a page in use is not free");
  free_.push_back(page);
}

void BlockPool::check_integrity(std::span<const std::int32_t> counted,
                                std::span<const char> kept) const {
  check(counted.size() == references_.size() && kept.size() == references_.size(),
        "books of one size");
  std::vector<char> is_free(references_.size(), 0);
  for (const PageId page : free_) {
    check(!is_free.at(static_cast<std::size_t>(page)), "a page is in the free list twice");
    is_free[static_cast<std::size_t>(page)] = 1;
  }
  for (std::size_t p = 0; p < references_.size(); ++p) {
    check(counted[p] == references_[p], "references differ from what the sequences hold");
    check((references_[p] > 0) + (is_free[p] != 0) + (kept[p] != 0) == 1,
          "a page is referenced, free or kept, and only one of these");
  }
}

}  // namespace ingot
