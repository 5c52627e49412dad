#pragma once

#include "cpu/kv_layout.h"
#include "cpu/simd/rows.h"

#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

// Writes the K and V of one token into its slot of a layer's pages.
class KvWriter {
 public:
  explicit KvWriter(const KvLayout& layout) : layout_(layout) {}

  // k, v: [kv_heads, dim]. Tokens of different slots may be written at the same time.
  void append(const RowKernels& rows, std::byte* pages, std::int64_t slot, const float* k,
              const float* v) const {
    auto* page =
        reinterpret_cast<std::uint8_t*>(pages) + slot / layout_.page_tokens * layout_.page_bytes();
    const std::int64_t token = slot % layout_.page_tokens;
    for (std::int64_t head = 0; head < layout_.kv_heads; ++head)
      rows.append({.k = k + head * layout_.dim,
                   .v = v + head * layout_.dim,
                   .dim = layout_.dim,
                   .store = layout_.store,
                   .k_to = page + layout_.k_at(head, token, 0),
                   .v_to = page + layout_.v_at(head, token, 0),
                   .k_scale = page + layout_.k_scale_at(head, token),
                   .v_scale = page + layout_.v_scale_at(head, token)});
  }

 private:
  KvLayout layout_;
};

}  // namespace ingot::cpu
