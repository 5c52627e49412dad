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
  KvStore store = KvStore::kBf16;

  std::int64_t unit() const { return key_unit(store); }
  std::int64_t k_dim() const { return (dim + unit() - 1) / unit() * unit(); }
  std::int64_t head_bytes() const {
    return page_tokens * ((k_dim() + dim) * value_bytes(store) + 2 * scale_bytes());
  }
  std::int64_t page_bytes() const { return kv_heads * head_bytes(); }
  std::int64_t k_offset(std::int64_t head) const { return head * head_bytes(); }
  std::int64_t v_offset(std::int64_t head) const {
    return k_offset(head) + page_tokens * k_dim() * value_bytes(store);
  }
  std::int64_t scale_offset(std::int64_t head) const {
    return v_offset(head) + page_tokens * dim * value_bytes(store);
  }
  // Offset of value d of K of a token of the page.
  std::int64_t k_at(std::int64_t head, std::int64_t token, std::int64_t d) const {
    const std::int64_t group = token / kKeyGroup * kKeyGroup * k_dim();
    const std::int64_t in_group = d / unit() * kKeyGroup * unit() + token % kKeyGroup * unit();
    return k_offset(head) + (group + in_group + d % unit()) * value_bytes(store);
  }
  std::int64_t v_at(std::int64_t head, std::int64_t token, std::int64_t d) const {
    const std::int64_t in_head =
        has_scales(store) ? (token / 2 * dim + d) * 2 + token % 2 : token * dim + d;
    return v_offset(head) + in_head * value_bytes(store);
  }
  // Offset of the scale of a token's K; that of V lies page_tokens floats behind.
  std::int64_t k_scale_at(std::int64_t head, std::int64_t token) const {
    return scale_offset(head) + token * scale_bytes();
  }
  std::int64_t v_scale_at(std::int64_t head, std::int64_t token) const {
    return k_scale_at(head, page_tokens + token);
  }

 private:
  std::int64_t scale_bytes() const { return has_scales(store) ? 4 : 0; }
};

// Throws Error{kBadInput} when the CPU cannot keep such a state: its dtype, its head dimension, or
// page_tokens that are no multiple of 16.
KvLayout kv_layout(const StateSpec& spec, std::int64_t page_tokens);

}  // namespace ingot::cpu
