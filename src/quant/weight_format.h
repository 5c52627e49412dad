#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ingot {

// How the numbers of a weight matrix [rows, k] are stored in its canonical form: rows one after
// another, each row self-contained (blocks along k, or one scale for the whole row). GGUF's block
// types keep GGUF's own bytes. One file in quant/ defines each format; the file's stem is the name.
// Knows no kernel and no device layout.
struct WeightFormat {
  std::string_view name;     // "f32", "bf16", "q4_1", "int8", "int4", ...
  std::int64_t block = 1;    // values a block; k must be a multiple (or of 1 for per-row formats)
  double bits_per_weight;    // for reports; per-row scales left out
  bool exact_dtype = false;  // f32, f16, bf16: plain numbers, block 1

  // Bytes of one row of k values.
  std::size_t (*row_bytes)(std::int64_t k);
  // One row to k floats, exactly (every format's values are representable in f32).
  void (*dequantize_row)(const std::byte* row, std::int64_t k, float* out);
  // k floats to one row, round to nearest; null where Ingot only reads the format.
  void (*quantize_row)(const float* in, std::int64_t k, std::byte* row);
};

// All formats, sorted by name.
std::span<const WeightFormat* const> weight_formats();
// Null when unknown.
const WeightFormat* find_weight_format(std::string_view name);
// Throws Error{kUsage} that lists the known names.
const WeightFormat& weight_format(std::string_view name);

// Bytes of [rows, k]; k must be a multiple of the block. Throws Error{kBadInput} on overflow or a
// bad k.
std::size_t weight_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t k);

}  // namespace ingot
