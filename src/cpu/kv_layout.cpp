#include "cpu/kv_layout.h"

#include "base/error.h"

namespace ingot::cpu {

KvLayout kv_layout(const StateSpec& spec, std::int64_t page_tokens) {
  if (spec.dtype != DType::kBF16 && spec.dtype != DType::kF32)
    fail(ErrorCode::kBadInput, "[cpu.kv] KV cache of {}, wanted bf16 or f32",
         dtype_name(spec.dtype));
  if (spec.kv_heads < 1 || spec.head_dim < 1 || spec.head_dim > kMaxHeadDim)
    fail(ErrorCode::kBadInput, "[cpu.kv] {} heads of {} values, wanted 1 to {} values",
         spec.kv_heads, spec.head_dim, kMaxHeadDim);
  if (page_tokens < kKeyGroup || page_tokens % kKeyGroup != 0)
    fail(ErrorCode::kBadInput, "[cpu.kv] pages of {} tokens, wanted a multiple of {}", page_tokens,
         kKeyGroup);
  return {spec.kv_heads, spec.head_dim, page_tokens, spec.dtype == DType::kF32};
}

}  // namespace ingot::cpu
