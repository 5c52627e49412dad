#include "cpu/packed_row.h"

#include <algorithm>
#include <cstring>

namespace ingot::cpu {

void unpack_row(const PackedWeight& weight, std::int64_t row_number, std::byte* row) {
  const PackedFormat& f = *weight.format;
  const auto lane = row_number % kPanelRows;
  const std::byte* at = weight.data + static_cast<std::size_t>(row_number / kPanelRows) *
                                          packed_panel_bytes(f, weight.k);
  if (f.row_header_bytes != 0) {
    std::memcpy(row, at + lane * 4, 4);
    row += f.row_header_bytes;
    at += 4 * kPanelRows;
  }
  // Of the last block only what the row has: k may end inside it.
  std::int64_t left = weight.k * f.source_bytes / f.block_k;
  for (; left > 0; left -= f.source_bytes, row += f.source_bytes) {
    for (int i = 0; i < f.segment_count; ++i) {
      const PackedSegment& s = f.segments[i];
      if (s.bytes == 2) {
        std::memcpy(row + s.offset, at + lane * 2, 2);
        at += 2 * kPanelRows;
        continue;
      }
      for (int w = 0; w < s.bytes; w += 4, at += 4 * kPanelRows) {
        std::uint32_t word;
        std::memcpy(&word, at + lane * 4, 4);
        word ^= s.xor_mask;
        const std::int64_t bytes = std::min<std::int64_t>(4, left - s.offset - w);
        if (bytes > 0) std::memcpy(row + s.offset + w, &word, static_cast<std::size_t>(bytes));
      }
    }
  }
}

}  // namespace ingot::cpu
