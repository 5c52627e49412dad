#include "runtime/block_pool.h"

#include "base/check.h"

namespace ingot {

BlockPool::BlockPool(std::int64_t pages) : references_(static_cast<std::size_t>(pages), 0) {
  free_.reserve(references_.size());
  for (std::int64_t p = pages - 1; p >= 0; --p) free_.push_back(static_cast<PageId>(p));
}

bool BlockPool::try_allocate(std::int64_t count, std::vector<PageId>& pages) {
  if (count > free_pages()) return false;
  for (std::int64_t i = 0; i < count; ++i) {
    const PageId page = free_.back();
    free_.pop_back();
    references_[static_cast<std::size_t>(page)] = 1;
    pages.push_back(page);
  }
  return true;
}

void BlockPool::add_reference(PageId page) {
  check(references_.at(static_cast<std::size_t>(page)) > 0, "a reference to a free page");
  ++references_[static_cast<std::size_t>(page)];
}

void BlockPool::release(std::span<const PageId> pages) {
  for (const PageId page : pages) {
    std::int32_t& count = references_.at(static_cast<std::size_t>(page));
    check(count > 0, "a page released twice");
    if (--count == 0) free_.push_back(page);
  }
}

void BlockPool::check_integrity(std::span<const std::vector<PageId>* const> holders) const {
  std::vector<std::int32_t> counted(references_.size(), 0);
  for (const auto* pages : holders)
    for (const PageId page : *pages) ++counted.at(static_cast<std::size_t>(page));
  check(counted == references_, "references differ from what the sequences hold");
  std::vector<char> is_free(references_.size(), 0);
  for (const PageId page : free_) {
    check(!is_free.at(static_cast<std::size_t>(page)), "a page is in the free list twice");
    is_free[static_cast<std::size_t>(page)] = 1;
  }
  for (std::size_t p = 0; p < references_.size(); ++p)
    check((references_[p] == 0) == (is_free[p] == 1),
          "a page is neither free nor referenced, or both");
}

}  // namespace ingot
