#include "cpu/packed_weight.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ingot::cpu {

namespace {

using Word4 = std::uint32_t __attribute__((vector_size(16)));
using RowPointers = std::array<std::byte*, kPanelRows>;

// Source of the rows that pad the last panel, and where unpacking drops them. No block is larger.
constexpr int kLargestBlock = 256;

bool takes_any_k(const PackedFormat& f) {
  return f.is_float || f.kind == PackedKind::kInt8;
}

std::size_t source_row_bytes(const PackedFormat& f, std::int64_t k) {
  return static_cast<std::size_t>(f.row_header_bytes + k * f.source_bytes / f.block_k);
}

Word4 load4(const std::byte* p) {
  Word4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void store4(std::byte* p, Word4 v) {
  std::memcpy(p, &v, sizeof v);
}

struct Transposed {
  Word4 row[4];
};

Transposed transpose(Word4 a, Word4 b, Word4 c, Word4 d) {
  const Word4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Word4 ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Word4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Word4 cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return {
      __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
      __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5), __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
}

// `words` 4-byte pieces at `offset` of 32 blocks to as many planes of 32 words, or back.
template <bool kPack>
void move_words(const RowPointers& rows, const PackedSegment& s, std::byte* plane) {
  const int words = s.bytes / 4;
  int w = 0;
  for (; w + 4 <= words; w += 4) {
    const Word4 mask = {s.xor_mask, s.xor_mask, s.xor_mask, s.xor_mask};
    for (int r = 0; r < kPanelRows; r += 4) {
      std::byte* at = plane + w * 128 + r * 4;
      const auto row = [&](int i) {
        return rows[static_cast<std::size_t>(r + i)] + s.offset + w * 4;
      };
      if constexpr (kPack) {
        const Transposed t = transpose(load4(row(0)), load4(row(1)), load4(row(2)), load4(row(3)));
        for (int i = 0; i < 4; ++i) store4(at + i * 128, t.row[i] ^ mask);
      } else {
        const Transposed t =
            transpose(load4(at), load4(at + 128), load4(at + 256), load4(at + 384));
        for (int i = 0; i < 4; ++i) store4(row(i), t.row[i] ^ mask);
      }
    }
  }
  for (; w < words; ++w) {
    for (int r = 0; r < kPanelRows; ++r) {
      std::byte* row = rows[static_cast<std::size_t>(r)] + s.offset + w * 4;
      std::byte* at = plane + w * 128 + r * 4;
      std::uint32_t v;
      std::memcpy(&v, kPack ? row : at, 4);
      v ^= s.xor_mask;
      std::memcpy(kPack ? at : row, &v, 4);
    }
  }
}

template <bool kPack>
void move_halves(const RowPointers& rows, const PackedSegment& s, std::byte* plane) {
  for (int r = 0; r < kPanelRows; ++r) {
    std::byte* row = rows[static_cast<std::size_t>(r)] + s.offset;
    if constexpr (kPack)
      std::memcpy(plane + r * 2, row, 2);
    else
      std::memcpy(row, plane + r * 2, 2);
  }
}

template <bool kPack>
void move_block(const PackedFormat& f, const RowPointers& rows, std::byte* block) {
  for (int i = 0; i < f.segment_count; ++i) {
    const PackedSegment& s = f.segments[i];
    if (s.bytes == 2) {
      move_halves<kPack>(rows, s, block);
      block += 64;
    } else {
      move_words<kPack>(rows, s, block);
      block += s.bytes * kPanelRows;
    }
  }
}

// The last block of a row whose k is no multiple of 32: through buffers padded with zeros.
template <bool kPack>
void move_partial(const PackedFormat& f, const RowPointers& rows, std::size_t bytes,
                  std::byte* block) {
  alignas(64) std::byte padded[kPanelRows][kLargestBlock] = {};
  RowPointers inside;
  for (std::size_t r = 0; r < kPanelRows; ++r) {
    inside[r] = padded[r];
    if constexpr (kPack) std::memcpy(padded[r], rows[r], bytes);
  }
  move_block<kPack>(f, inside, block);
  if constexpr (!kPack)
    for (std::size_t r = 0; r < kPanelRows; ++r) std::memcpy(rows[r], padded[r], bytes);
}

// One panel; `real` of its rows exist. Only the side that is written is modified.
template <bool kPack>
void move_panel(const PackedFormat& f, std::int64_t k, std::int64_t real, std::byte* source,
                std::byte* panel) {
  alignas(64) std::byte nowhere[kLargestBlock] = {};
  const std::size_t row_bytes = source_row_bytes(f, k);
  const std::int64_t blocks = padded_k(f, k) / f.block_k;
  const std::int64_t whole = k / f.block_k;
  const int block_bytes = packed_block_bytes(f);
  RowPointers rows;
  if (f.row_header_bytes != 0) {
    for (std::int64_t r = 0; r < kPanelRows; ++r) {
      std::byte* row = r < real ? source + static_cast<std::size_t>(r) * row_bytes : nowhere;
      if constexpr (kPack)
        std::memcpy(panel + r * 4, row, 4);
      else
        std::memcpy(row, panel + r * 4, 4);
    }
    panel += 4 * kPanelRows;
  }
  for (std::int64_t b = 0; b < blocks; ++b, panel += block_bytes) {
    const std::size_t at = static_cast<std::size_t>(f.row_header_bytes + b * f.source_bytes);
    for (std::int64_t r = 0; r < kPanelRows; ++r)
      rows[static_cast<std::size_t>(r)] =
          r < real ? source + static_cast<std::size_t>(r) * row_bytes + at : nowhere;
    if (b < whole)
      move_block<kPack>(f, rows, panel);
    else
      move_partial<kPack>(f, rows, row_bytes - at, panel);
  }
}

template <bool kPack>
void move_panels(const PackedFormat& f, std::int64_t n, std::int64_t k, PanelRange range,
                 std::byte* rows, std::byte* packed) {
  const std::size_t panel_bytes = packed_panel_bytes(f, k);
  const std::size_t step = source_row_bytes(f, k) * kPanelRows;
  for (std::int64_t p = range.begin; p < range.end; ++p, rows += step, packed += panel_bytes)
    move_panel<kPack>(f, k, std::min<std::int64_t>(kPanelRows, n - p * kPanelRows), rows, packed);
}

template <bool kPack>
void move_all(ThreadPool& pool, const PackedFormat& f, std::int64_t n, std::int64_t k,
              std::byte* rows, std::byte* packed) {
  const std::int64_t panels = (n + kPanelRows - 1) / kPanelRows;
  const std::size_t panel_bytes = packed_panel_bytes(f, k);
  const std::size_t step = source_row_bytes(f, k) * kPanelRows;
  pool.run([&](int thread) {
    const auto [begin, end] = static_split(panels, pool.size(), thread);
    const auto offset = static_cast<std::size_t>(begin);
    move_panels<kPack>(f, n, k, {begin, end}, rows + offset * step, packed + offset * panel_bytes);
  });
}

}  // namespace

const PackedFormat* find_packed_format(std::string_view weight_format) {
  for (const PackedFormat& f : kPackedFormats)
    if (weight_format == f.name) return &f;
  return nullptr;
}

std::int64_t padded_k(const PackedFormat& format, std::int64_t k) {
  return (k + format.block_k - 1) / format.block_k * format.block_k;
}

std::size_t packed_panel_bytes(const PackedFormat& format, std::int64_t k) {
  return static_cast<std::size_t>(format.row_header_bytes * kPanelRows +
                                  padded_k(format, k) / format.block_k *
                                      packed_block_bytes(format));
}

std::size_t packed_bytes(const PackedFormat& format, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 40;  // no dimension of a model comes near
  if (n < 0 || k < 0 || n > kLimit || k > kLimit)
    fail(ErrorCode::kBadInput, "[cpu.pack] {} [{}, {}] is larger than memory", format.name, n, k);
  if (k % format.block_k != 0 && !takes_any_k(format))
    fail(ErrorCode::kBadInput, "[cpu.pack] {} [{}, {}]: rows must be blocks of {} values",
         format.name, n, k, format.block_k);
  std::size_t total = 0;
  if (__builtin_mul_overflow(packed_panel_bytes(format, k),
                             static_cast<std::size_t>((n + kPanelRows - 1) / kPanelRows), &total))
    fail(ErrorCode::kBadInput, "[cpu.pack] {} [{}, {}] is larger than memory", format.name, n, k);
  return total;
}

void pack_rows(ThreadPool& pool, const PackedFormat& format, std::int64_t n, std::int64_t k,
               const std::byte* rows, std::byte* packed) {
  check(k % format.block_k == 0 || takes_any_k(format), "rows are whole blocks");
  move_all<true>(pool, format, n, k, const_cast<std::byte*>(rows), packed);
}

void unpack_rows(ThreadPool& pool, const PackedWeight& weight, std::byte* rows) {
  move_all<false>(pool, *weight.format, weight.n, weight.k, rows,
                  const_cast<std::byte*>(weight.data));
}

void pack_panels(const PackedFormat& format, std::int64_t n, std::int64_t k, PanelRange range,
                 const std::byte* rows, std::byte* packed) {
  move_panels<true>(format, n, k, range, const_cast<std::byte*>(rows), packed);
}

void unpack_panels(const PackedFormat& format, std::int64_t n, std::int64_t k, PanelRange range,
                   const std::byte* packed, std::byte* rows) {
  move_panels<false>(format, n, k, range, rows, const_cast<std::byte*>(packed));
}

}  // namespace ingot::cpu
