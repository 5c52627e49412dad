#pragma once

#include "base/threads.h"
#include "cpu/simd/packed_format.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ingot::cpu {

// A packed weight matrix [n, k] that someone else owns. Layout: cpu/simd/packed_format.h. Data is
// aligned to 64 bytes. Rows of the last panel beyond n, and k beyond k, are zeros.
struct PackedWeight {
  const PackedFormat* format = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const std::byte* data = nullptr;

  std::int64_t panels() const { return (n + kPanelRows - 1) / kPanelRows; }
};

// Null for a weight format without CPU matrix kernels.
const PackedFormat* find_packed_format(std::string_view weight_format);

// k rounded up to whole blocks and to a multiple of 32.
std::int64_t padded_k(const PackedFormat& format, std::int64_t k);
// Bytes of one panel, a multiple of 64. Panels follow each other without gaps, so a matrix is
// sliced between panels by plain arithmetic.
std::size_t packed_panel_bytes(const PackedFormat& format, std::int64_t k);
// Throws Error{kBadInput} when k is not a whole number of blocks or the size overflows.
std::size_t packed_bytes(const PackedFormat& format, std::int64_t n, std::int64_t k);

// Canonical rows (WeightFormat: [n] rows of row_bytes(k), one after another) to the packed layout,
// all threads of the pool. `packed` has packed_bytes and is aligned to 64 bytes.
void pack_rows(ThreadPool& pool, const PackedFormat& format, std::int64_t n, std::int64_t k,
               const std::byte* rows, std::byte* packed);
// The exact inverse.
void unpack_rows(ThreadPool& pool, const PackedWeight& weight, std::byte* rows);

// The same for panels [begin, end) on the calling thread; `rows` points at row 32 * begin, `packed`
// at panel `begin`.
struct PanelRange {
  std::int64_t begin;
  std::int64_t end;
};
void pack_panels(const PackedFormat& format, std::int64_t n, std::int64_t k, PanelRange range,
                 const std::byte* rows, std::byte* packed);
void unpack_panels(const PackedFormat& format, std::int64_t n, std::int64_t k, PanelRange range,
                   const std::byte* packed, std::byte* rows);

}  // namespace ingot::cpu
