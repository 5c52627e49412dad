#include "cpu/kv_layout.h"

#include "base/error.h"

namespace ingot::cpu {

namespace {

KvStore store_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return KvStore::kF32;
    case DType::kBF16:
      return KvStore::kBf16;
    case DType::kI8:
      return KvStore::kInt8;
    case DType::kE4M3:
      return KvStore::kE4m3;
    default:
      fail(ErrorCode::kBadInput, "[cpu.kv] KV cache of {}, wanted f32, bf16, i8 or e4m3",
           dtype_name(dtype));
  }
}

}  // namespace

KvLayout kv_layout(const StateSpec& spec, std::int64_t page_tokens) {
  const KvStore store = store_of(spec.dtype);
  if (spec.kv_heads < 1 || spec.head_dim < 1 || spec.head_dim > kMaxHeadDim)
    fail(ErrorCode::kBadInput, "[cpu.kv] {} heads of {} values, wanted 1 to {} values",
         spec.kv_heads, spec.head_dim, kMaxHeadDim);
  if (page_tokens < kKeyGroup || page_tokens % kKeyGroup != 0)
    fail(ErrorCode::kBadInput, "[cpu.kv] pages of {} tokens, wanted a multiple of {}", page_tokens,
         kKeyGroup);
  return {spec.kv_heads, spec.head_dim, page_tokens, store};
}

}  // namespace ingot::cpu
