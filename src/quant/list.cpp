#include "base/error.h"
#include "quant/weight_format.h"

#include <algorithm>
#include <array>
#include <string>

namespace ingot {

// The folder is the list: every quant/<stem>.cpp defines `const WeightFormat kWeightFormat_<stem>`.
#define INGOT_STEM(stem) extern const WeightFormat kWeightFormat_##stem;
#include "quant_stems.inc"
#undef INGOT_STEM

namespace {

const std::array kFormats = {
#define INGOT_STEM(stem) &kWeightFormat_##stem,
#include "quant_stems.inc"
#undef INGOT_STEM
};

constexpr std::int64_t kMaxRow = std::int64_t{1} << 48;  // row_bytes cannot overflow below

}  // namespace

std::span<const WeightFormat* const> weight_formats() {
  return kFormats;
}

const WeightFormat* find_weight_format(std::string_view name) {
  const auto it = std::find_if(kFormats.begin(), kFormats.end(),
                               [&](const WeightFormat* f) { return f->name == name; });
  return it == kFormats.end() ? nullptr : *it;
}

const WeightFormat& weight_format(std::string_view name) {
  if (const WeightFormat* format = find_weight_format(name)) return *format;
  std::string known;
  for (const WeightFormat* f : kFormats) known += " " + std::string(f->name);
  fail(ErrorCode::kUsage, "[quant] unknown weight format {}, known:{}", name, known);
}

std::size_t weight_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t k) {
  if (rows < 0 || k < 0 || k % format.block != 0)
    fail(ErrorCode::kBadInput, "[quant.{}] [{}, {}]: rows must be blocks of {} values", format.name,
         rows, k, format.block);
  if (k > kMaxRow)
    fail(ErrorCode::kBadInput, "[quant.{}] a row of {} values, at most {} are possible",
         format.name, k, kMaxRow);
  const std::size_t row = format.row_bytes(k);
  std::size_t total = 0;
  if (__builtin_mul_overflow(row, static_cast<std::size_t>(rows), &total))
    fail(ErrorCode::kBadInput, "[quant.{}] [{}, {}] is larger than memory", format.name, rows, k);
  return total;
}

}  // namespace ingot
