#include "runtime/block_table.h"

#include "base/check.h"

#include <algorithm>
#include <iterator>

namespace ingot {

std::int32_t BlockTable::take_row() {
  const auto row = std::ranges::find(used_, 0);
  check(row != used_.end(), "a row for everybody who was let in");
  *row = 1;
  const auto index = row - used_.begin();
  rows_ = std::max<std::int64_t>(rows_, index + 1);
  return static_cast<std::int32_t>(index);
}

void BlockTable::free_row(std::int32_t row) {
  used_.at(static_cast<std::size_t>(row)) = 0;
  while (rows_ > 0 && !used_[static_cast<std::size_t>(rows_ - 1)]) --rows_;
}

void BlockTable::write(std::int32_t row, std::size_t first, std::span<const PageId> pages) {
  if (pages.empty()) return;
  check(first + pages.size() <= static_cast<std::size_t>(pages_), "a sequence fits its row");
  // Where a window has passed nobody reads; the device wants a page all the same.
  std::ranges::transform(pages,
                         entries_.begin() + row * pages_ + static_cast<std::ptrdiff_t>(first),
                         [](PageId page) { return std::max<PageId>(page, 0); });
  changes_.push_back(
      {row, static_cast<std::int32_t>(first), static_cast<std::int32_t>(pages.size())});
}

void BlockTable::tell_again() {
  changes_.clear();
  for (std::int32_t row = 0; row < rows_; ++row)
    if (used_[static_cast<std::size_t>(row)])
      changes_.push_back({row, 0, static_cast<std::int32_t>(pages_)});
}

void BlockTable::take_changes(std::vector<TableChange>& changes) {
  // Whoever had a row past the last may have gone since; who takes it next writes all of it.
  std::ranges::copy_if(changes_, std::back_inserter(changes),
                       [this](const TableChange& change) { return change.row < rows_; });
  changes_.clear();
}

}  // namespace ingot
