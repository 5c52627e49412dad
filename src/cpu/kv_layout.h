#pragma once

#include "cpu/simd/attention.h"
#include "ir/type.h"

#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

// Where things lie in a page of KV cache (the layout itself: simd/attention.h).
struct KvLayout {
  std::int64_t kv_heads = 0;
  std::int64_t dim = 0;
  std::int64_t page_tokens = 0;
  bool f32 = false;

  std::int64_t value_bytes() const { return f32 ? 4 : 2; }
  std::int64_t unit() const { return f32 ? 1 : 2; }  // values of one token's K beside each other
  std::int64_t k_dim() const { return (dim + unit() - 1) / unit() * unit(); }
  std::int64_t head_bytes() const { return page_tokens * (k_dim() + dim) * value_bytes(); }
  std::int64_t page_bytes() const { return kv_heads * head_bytes(); }
  std::int64_t k_offset(std::int64_t head) const { return head * head_bytes(); }
  std::int64_t v_offset(std::int64_t head) const {
    return k_offset(head) + page_tokens * k_dim() * value_bytes();
  }
  // Offset of value d of K of a token of the page.
  std::int64_t k_at(std::int64_t head, std::int64_t token, std::int64_t d) const {
    const std::int64_t group = token / kKeyGroup * kKeyGroup * k_dim();
    const std::int64_t in_group = d / unit() * kKeyGroup * unit() + token % kKeyGroup * unit();
    return k_offset(head) + (group + in_group + d % unit()) * value_bytes();
  }
  std::int64_t v_at(std::int64_t head, std::int64_t token, std::int64_t d) const {
    return v_offset(head) + (token * dim + d) * value_bytes();
  }
};

// Throws Error{kBadInput} when the CPU cannot keep such a state: its dtype, its head dimension, or
// page_tokens that are no multiple of 16.
KvLayout kv_layout(const StateSpec& spec, std::int64_t page_tokens);

}  // namespace ingot::cpu
