#include "cpu/convert.h"

#include "base/check.h"
#include "base/half.h"

#include <cstring>

namespace ingot::cpu {

void to_f32(const RowKernels& rows, DType from, const std::byte* x, std::int64_t n, float* out) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(x);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(x);
  switch (from) {
    case DType::kF32:
      std::memmove(out, x, static_cast<std::size_t>(n) * sizeof(float));
      return;
    case DType::kBF16:
      return rows.from_bf16(halves, n, out);
    case DType::kF16:
      for (std::int64_t i = 0; i < n; ++i) out[i] = f16_to_f32(halves[i]);
      return;
    case DType::kE4M3:
      for (std::int64_t i = 0; i < n; ++i) out[i] = e4m3_to_f32(bytes[i]);
      return;
    case DType::kE5M2:
      for (std::int64_t i = 0; i < n; ++i) out[i] = e5m2_to_f32(bytes[i]);
      return;
    default:
      check(false, "only floating values widen to f32");
  }
}

void from_f32(const RowKernels& rows, const float* x, std::int64_t n, DType to, std::byte* out) {
  auto* halves = reinterpret_cast<std::uint16_t*>(out);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out);
  switch (to) {
    case DType::kF32:
      std::memmove(out, x, static_cast<std::size_t>(n) * sizeof(float));
      return;
    case DType::kBF16:
      return rows.to_bf16(x, n, halves);
    case DType::kF16:
      for (std::int64_t i = 0; i < n; ++i) halves[i] = f32_to_f16(x[i]);
      return;
    case DType::kE4M3:
      for (std::int64_t i = 0; i < n; ++i) bytes[i] = f32_to_e4m3(x[i]);
      return;
    default:
      check(false, "f32 narrows to bf16, f16 and e4m3 only");
  }
}

}  // namespace ingot::cpu
