#include "cuda/binding.h"

#include "base/check.h"
#include "cuda/sources.h"
#include "cuda/weight_tiles.h"

#include <fmt/core.h>

#include <limits>
#include <utility>

namespace ingot::cuda {

// The folder is the list: every kernels/<stem>.cu has a kernels/<stem>.cpp that defines
// `bind_<stem>`.
#define INGOT_STEM(stem) BindingOrReason bind_##stem(const OpCall& call);
#include "cuda_stems.inc"
#undef INGOT_STEM

namespace {

struct Stem {
  std::string_view name;
  BindFunction bind;
};

constexpr Stem kStems[] = {
#define INGOT_STEM(stem) {#stem, bind_##stem},
#include "cuda_stems.inc"
#undef INGOT_STEM
};

bool is_device_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

}  // namespace

BindFunction find_binding(std::string_view op) {
  for (const Stem& stem : kStems)
    if (stem.name == op) return stem.bind;
  return nullptr;
}

std::vector<std::string_view> kernel_stems() {
  std::vector<std::string_view> names;
  for (const Stem& stem : kStems) names.push_back(stem.name);
  return names;
}

Binder::Binder(std::string stem, const OpCall& call) : call_(call) {
  binding_.source.stem = std::move(stem);
}

void Binder::require(bool condition, std::string reason) {
  if (!condition && reason_.empty()) reason_ = std::move(reason);
}

void Binder::number(std::string name, std::int64_t value) {
  require(value >= 0 && value <= std::numeric_limits<int>::max(),
          fmt::format("{} is {}, kernels count in 31 bits", name, value));
  binding_.source.defines.emplace_back(std::move(name), std::to_string(value));
}

void Binder::type(std::string name, DType dtype) {
  require(is_device_float(dtype), fmt::format("{} is {}, CUDA kernels compute on f32, f16 and bf16",
                                              name, dtype_name(dtype)));
  const std::string text(dtype_name(dtype));
  if (binding_.variant.empty()) binding_.variant = text;
  binding_.source.defines.emplace_back(std::move(name), text);
}

void Binder::state(std::string name, DType dtype) {
  if (state_scale_bytes(dtype) == 0) return type(std::move(name), dtype);
  const std::string text(dtype_name(dtype));
  binding_.variant += (binding_.variant.empty() ? "" : ".") + text;
  binding_.source.defines.emplace_back(std::move(name), text);
}

bool Binder::in_tiles(std::size_t operand) const {
  const WeightFormat* format = call_.operands[operand].format;
  return call_.layouts[operand] == kTilesLayout && format && find_tile_format(format->name);
}

void Binder::weight(std::size_t operand) {
  const WeightFormat* format = call_.operands[operand].format;
  check(format != nullptr, "a weight operand without a format");
  binding_.variant += fmt::format("{}{}", binding_.variant.empty() ? "" : ".", format->name);
  if (in_tiles(operand)) {
    const TileFormat& tiles = *find_tile_format(format->name);
    number("TILE_BITS", tiles.bits);
    number("TILE_GROUP", tiles.group);
    number("TILE_ROW_SCALE", tiles.row_scale);
    return;
  }
  const std::string header = fmt::format("cuda/device/weight_{}.cuh", format->name);
  require(find_device_source(header) != nullptr,
          fmt::format("weight format {} has no CUDA loader", format->name));
  require(call_.layouts[operand] == kRowsLayout,
          fmt::format("weight layout {} of {}, wanted {}", call_.layouts[operand], format->name,
                      kRowsLayout));
  binding_.source.defines.emplace_back("WEIGHT_HEADER", '"' + header + '"');
  binding_.source.included.push_back(header);
}

void Binder::vector(std::size_t operand) {
  const ValueType& type = call_.operands[operand];
  require(type.format ? type.format->name == "f32" : type.dtype == DType::kF32,
          fmt::format("operand {} is {}, wanted f32", operand, to_string(type)));
}

BindingOrReason Binder::finish(RunFunction run) {
  if (!reason_.empty()) return std::move(reason_);
  binding_.run = std::move(run);
  return std::move(binding_);
}

std::int64_t columns_of(const ValueType& type) {
  check(!type.dims.empty() && type.dims.back().is_number(), "columns must be a number");
  return type.dims.back().offset;
}

std::int64_t elements_at(const ValueType& type, const DimValues& dims) {
  std::int64_t elements = 1;
  for (const Dim& dim : type.dims) elements *= dim.at(dims);
  return elements;
}

void check_aligned(const void* address) {
  check(reinterpret_cast<std::uintptr_t>(address) % 16 == 0,
        "an operand of a CUDA kernel must be aligned to 16 bytes");
}

}  // namespace ingot::cuda
