#include "cpu/kernel_maker.h"

#include "base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ingot::cpu {

// The folder is the list.
#define INGOT_STEM(stem) KernelOrReason make_kernel_##stem(const OpCall&, const KernelContext&);
#include "cpu_kernels_stems.inc"
#undef INGOT_STEM

namespace {

struct Entry {
  std::string_view op;
  KernelMaker maker;
};

constexpr Entry kEntries[] = {
#define INGOT_STEM(stem) {#stem, make_kernel_##stem},
#include "cpu_kernels_stems.inc"
#undef INGOT_STEM
};

}  // namespace

KernelMaker find_kernel_maker(std::string_view op) {
  const auto it = std::find_if(std::begin(kEntries), std::end(kEntries),
                               [&](const Entry& entry) { return entry.op == op; });
  return it == std::end(kEntries) ? nullptr : it->maker;
}

const RowKernels& row_kernels(Tier tier) {
#if defined(__x86_64__)
  if (tier >= Tier::kAvx512) return kRowsAvx512;
  if (tier >= Tier::kAvx2) return kRowsAvx2;
#endif
  (void)tier;
  return kRowsGeneric;
}

std::string reason_unless_f32(const OpCall& call) {
  const auto reason = [](std::string_view what, std::size_t i, const ValueType& type) {
    return fmt::format("{} {} is {}, wanted f32", what, i, dtype_name(type.dtype));
  };
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const ValueType& type = call.operands[i];
    if (type.state.kv_heads != 0 || type.dtype == DType::kI32) continue;
    if (type.format && type.format->name != "f32")
      return fmt::format("operand {} is stored as {}, wanted f32", i, type.format->name);
    if (type.dtype != DType::kF32) return reason("operand", i, type);
  }
  for (std::size_t i = 0; i < call.results.size(); ++i)
    if (call.results[i].dtype != DType::kF32) return reason("result", i, call.results[i]);
  return {};
}

std::int64_t columns_of(const ValueType& type) {
  check(!type.dims.empty() && type.dims.back().is_number(), "columns are a number");
  return type.dims.back().offset;
}

}  // namespace ingot::cpu
