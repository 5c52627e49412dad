#pragma once

#include "runtime/batch.h"
#include "runtime/block_pool.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// The pages of every running sequence, a row each, as the device reads them. A row belongs to one
// sequence from its start to its end, so a step changes few entries, however long sequences are.
class BlockTable {
 public:
  // Of a row in one step, as a rule: it is taken, grows and is named.
  static constexpr std::size_t kChangesOfRow = 4;

  BlockTable(std::int64_t rows, std::int64_t pages)
      : pages_(pages),
        used_(static_cast<std::size_t>(rows)),
        entries_(static_cast<std::size_t>(rows * pages)) {
    changes_.reserve(kChangesOfRow * used_.size());
  }

  // The lowest row that is free.
  std::int32_t take_row();
  void free_row(std::int32_t row);
  // Entries of a row from `first` on are these.
  void write(std::int32_t row, std::size_t first, std::span<const PageId> pages);
  // Nothing that was told is sure to have arrived: all used rows count as changed.
  void tell_again();

  std::int64_t pages() const { return pages_; }
  // Rows up to the last that is used.
  std::int64_t rows() const { return rows_; }
  std::span<const std::int32_t> entries() const {
    return std::span(entries_).first(static_cast<std::size_t>(rows_ * pages_));
  }
  // What was written since the last call, of rows() rows.
  void take_changes(std::vector<TableChange>& changes);

 private:
  std::int64_t pages_;
  std::int64_t rows_ = 0;
  std::vector<char> used_;
  std::vector<std::int32_t> entries_;  // [rows, pages]
  std::vector<TableChange> changes_;
};

}  // namespace ingot
