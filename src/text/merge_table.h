#pragma once

#include "text/image.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

inline std::size_t merge_slot(std::uint32_t left, std::uint32_t right, std::size_t slots) {
  const std::uint64_t key = (std::uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(((key >> 32) * std::uint64_t{slots}) >> 32);
}

// The merges of a BPE model, by pair of ids.
class MergeTable {
 public:
  MergeTable() = default;
  // Throws Error{kBadInput} if an id is not below `tokens`.
  MergeTable(std::span<const MergeSlot> slots, int tokens) : slots_(slots) {
    bool good = slots.size() < (1u << 28);
    for (const MergeSlot& slot : slots)
      good &= slot.id == kNoMerge || slot.id < static_cast<std::uint32_t>(tokens);
    if (!good) fail(ErrorCode::kBadInput, "[tokenizer.image] the merge table is broken");
  }

  // nullptr: the pair does not join.
  const MergeSlot* find(std::int32_t left, std::int32_t right) const {
    const auto l = static_cast<std::uint32_t>(left);
    const auto r = static_cast<std::uint32_t>(right);
    if (slots_.empty()) return nullptr;
    std::size_t at = merge_slot(l, r, slots_.size());
    for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
      const MergeSlot& slot = slots_[at];
      if (slot.id == kNoMerge) return nullptr;
      if (slot.left == l && slot.right == r) return &slot;
      if (++at == slots_.size()) at = 0;
    }
    return nullptr;
  }

  std::span<const MergeSlot> slots() const { return slots_; }

 private:
  std::span<const MergeSlot> slots_;
};

// Places merges in their slots; of equal pairs the last one counts.
std::vector<MergeSlot> place_merges(std::span<const MergeSlot> merges);

}  // namespace ingot
