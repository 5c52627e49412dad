#pragma once

#include <cstdint>
#include <vector>

namespace ingot {

// Everything one step needs, as plain arrays; the names are the plan's inputs. T tokens of S
// sequences, packed.
struct Batch {
  std::vector<std::int32_t> ids;          // [T]
  std::vector<std::int32_t> positions;    // [T] in its sequence
  std::vector<std::int32_t> slots;        // [T] where K and V go: page * page_tokens + offset
  std::vector<std::int32_t> rope_row;     // [T]
  std::vector<std::int32_t> query_start;  // [S + 1]
  std::vector<std::int32_t> context_len;  // [S] cached tokens, this step's included
  std::vector<std::int32_t> block_table;  // [S, pages]
  std::int64_t pages = 0;                 // columns of block_table
  std::vector<std::int32_t> rows;  // [R] tokens of this step whose logits are wanted, ascending

  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t sequences() const { return static_cast<std::int64_t>(context_len.size()); }
};

}  // namespace ingot
