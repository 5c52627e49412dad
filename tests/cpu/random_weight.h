#pragma once

#include "base/half.h"
#include "cpu/packed_weight.h"
#include "quant/weight_format.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <vector>

namespace ingot::cpu {

// 64-byte aligned memory of a fixed size.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes, std::byte fill = std::byte{0xa5})
      : bytes_(bytes),
        data_(static_cast<std::byte*>(::operator new(bytes + 64, std::align_val_t{64}))) {
    std::memset(data_.get(), std::to_integer<int>(fill), bytes + 64);
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte[], Free> data_;
};

inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(random);
  return out;
}

// [n, k] in the canonical form of a format: quantised normal numbers, or random bytes with sane f16
// scales where Ingot only reads the format.
inline std::vector<std::byte> random_rows(const PackedFormat& packed, std::int64_t n,
                                          std::int64_t k, std::uint32_t seed) {
  const WeightFormat& format = weight_format(packed.name);
  const std::size_t row_bytes = format.row_bytes(k);
  std::vector<std::byte> rows(static_cast<std::size_t>(n) * row_bytes);
  std::mt19937 random(seed);
  if (format.quantize_row != nullptr) {
    const auto values = random_floats(static_cast<std::size_t>(n * k), seed);
    for (std::int64_t r = 0; r < n; ++r)
      format.quantize_row(values.data() + r * k, k,
                          rows.data() + static_cast<std::size_t>(r) * row_bytes);
    return rows;
  }
  for (std::byte& b : rows) b = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(packed.source_bytes))
    for (int i = 0; i < packed.segment_count; ++i) {
      if (packed.segments[i].bytes != 2) continue;
      const float scale = std::uniform_real_distribution<float>(0.001f, 0.02f)(random);
      const std::uint16_t h = f32_to_f16(scale);
      std::memcpy(rows.data() + at + packed.segments[i].offset, &h, 2);
    }
  return rows;
}

struct TestWeight {
  std::vector<std::byte> rows;
  Aligned data;
  PackedWeight view;

  TestWeight(const PackedFormat& format, std::int64_t n, std::int64_t k, std::uint32_t seed)
      : rows(random_rows(format, n, k, seed)), data(packed_bytes(format, n, k)) {
    ThreadPool pool(1);
    pack_rows(pool, format, n, k, rows.data(), data.data());
    view = {.format = &format, .n = n, .k = k, .data = data.data()};
  }
  // [n, k]
  std::vector<float> dequantised() const {
    const WeightFormat& format = weight_format(view.format->name);
    std::vector<float> out(static_cast<std::size_t>(view.n * view.k));
    for (std::int64_t r = 0; r < view.n; ++r)
      format.dequantize_row(rows.data() + static_cast<std::size_t>(r) * format.row_bytes(view.k),
                            view.k, out.data() + r * view.k);
    return out;
  }
};

// A k that the format takes and that is no multiple of 32 where it may be.
inline std::int64_t odd_k(const PackedFormat& f, int blocks) {
  const bool any = f.is_float || f.kind == PackedKind::kInt8;
  return blocks * f.block_k - (any ? 13 : 0);
}

}  // namespace ingot::cpu
