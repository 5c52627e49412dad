#include "builder/weight_rows.h"

#include "base/check.h"
#include "base/error.h"

#include <cstring>
#include <exception>

namespace ingot {

namespace {

struct Sizes {
  std::int64_t rows = 0;
  std::int64_t k = 0;
};

// A vector counts as rows of one value, so that recipes join biases as they join matrices.
Sizes sizes_of(const Shape& shape) {
  if (shape.rank() == 1) return {shape[0], 1};
  return {shape[0], shape.elements() / std::max<std::int64_t>(1, shape[0])};
}

}  // namespace

// Every row alone, so it does not matter which thread takes which.
std::vector<std::byte> WeightRows::converted(const SourceTensor& tensor,
                                             std::span<const std::byte> bytes,
                                             const WeightFormat& to) {
  const WeightFormat& from = require_format(tensor);
  if (!to.quantize_row)
    fail(ErrorCode::kUsage, "[quant] {} is read but not written; choose another --quant", to.name);
  const Sizes size = sizes_of(tensor.shape);
  const std::size_t from_row = from.row_bytes(size.k);
  const std::size_t to_row = to.row_bytes(size.k);
  std::vector<std::byte> result(to_row * static_cast<std::size_t>(size.rows));
  std::vector<float> values(static_cast<std::size_t>(size.k * threads_.size()));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads_.size()));
  threads_.run([&](int thread) {
    try {
      float* row = values.data() + size.k * thread;
      const auto [begin, end] = static_split(size.rows, threads_.size(), thread);
      for (std::int64_t r = begin; r < end; ++r) {
        from.dequantize_row(bytes.data() + static_cast<std::size_t>(r) * from_row, size.k, row);
        to.quantize_row(row, size.k, result.data() + static_cast<std::size_t>(r) * to_row);
      }
    } catch (...) {  // a weight that the format cannot hold
      errors[static_cast<std::size_t>(thread)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return result;
}

std::vector<std::byte> WeightRows::part(const std::string& slot, const WeightFormat& format) {
  if (const auto it = constants_.find(slot); it != constants_.end()) {
    check(format.name == "f32", "constants are f32");
    std::vector<std::byte> bytes(it->second.size() * sizeof(float));
    std::memcpy(bytes.data(), it->second.data(), bytes.size());
    return bytes;
  }
  const auto it = checkpoint_.slots.find(slot);
  check(it != checkpoint_.slots.end(), "a plan weight without a slot");
  const SourceTensor& tensor = *it->second;
  std::vector<std::byte> scratch;
  const std::span<const std::byte> bytes = contiguous_bytes(tensor, scratch);
  if (tensor.format == &format) return {bytes.begin(), bytes.end()};
  return converted(tensor, bytes, format);
}

std::vector<std::byte> WeightRows::rows(const PlanWeight& weight) {
  const WeightFormat& format = weight_format(weight.format);
  if (weight.recipe.parts.empty()) return part(weight.name, format);
  std::vector<std::vector<std::byte>> parts;
  for (const std::string& name : weight.recipe.parts) parts.push_back(part(name, format));

  const std::size_t row = format.row_bytes(sizes_of(weight.shape).k);
  std::vector<std::byte> joined;
  for (const auto& p : parts) joined.reserve(joined.size() + p.size());
  if (weight.recipe.interleave == 0) {
    for (const auto& p : parts) joined.insert(joined.end(), p.begin(), p.end());
  } else {
    const std::size_t turn = static_cast<std::size_t>(weight.recipe.interleave) * row;
    check(parts[0].size() % turn == 0, "parts are whole turns");
    for (std::size_t at = 0; at < parts[0].size(); at += turn)
      for (const auto& p : parts)
        joined.insert(joined.end(), p.begin() + static_cast<std::ptrdiff_t>(at),
                      p.begin() + static_cast<std::ptrdiff_t>(at + turn));
  }
  check(joined.size() == row * static_cast<std::size_t>(sizes_of(weight.shape).rows),
        "joined parts fill the weight");
  return joined;
}

}  // namespace ingot
