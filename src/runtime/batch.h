#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// A page that moves before a step runs. A page here is that page in every layer.
struct PageCopy {
  enum class Kind : std::uint8_t {
    kPage,      // page `from` to page `to`: a sequence writes on where another one began
    kToHost,    // page `from` to host slot `to`
    kFromHost,  // host slot `from` to page `to`
  };
  Kind kind = Kind::kPage;
  std::int32_t from = 0;
  std::int32_t to = 0;
  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

// Entries [first, first + count) of a row of the block table that changed since the last step.
struct TableChange {
  std::int32_t row = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
};

// Everything one step needs, as plain arrays; the names are the plan's inputs. T tokens of S
// sequences, packed. A sequence keeps its row of the block table while it runs; one that has no
// tokens in this step has an empty stretch of query_start.
struct Batch {
  std::vector<std::int32_t> ids;          // [T]
  std::vector<std::int32_t> positions;    // [T] in its sequence
  std::vector<std::int32_t> slots;        // [T] where K and V go: page * page_tokens + offset
  std::vector<std::int32_t> rope_row;     // [T]
  std::vector<std::int32_t> query_start;  // [S + 1]
  std::vector<std::int32_t> context_len;  // [S] cached tokens, this step's included
  std::vector<std::int32_t> rows;  // [R] tokens of this step whose logits are wanted, ascending
  std::span<const std::int32_t> block_table;  // [S, pages]; memory of whoever made the batch
  std::int64_t pages = 0;                     // columns of block_table
  std::vector<TableChange> table_changes;     // since the last step; whole_table: all of it
  bool whole_table = true;
  std::vector<PageCopy> copies;  // done in this order, before anything else

  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t sequences() const { return static_cast<std::int64_t>(context_len.size()); }
};

}  // namespace ingot
