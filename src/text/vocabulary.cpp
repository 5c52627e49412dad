#include "text/vocabulary.h"

#include "base/hash.h"

#include <bit>

namespace ingot {

Vocabulary::Vocabulary(const ImageView& image)
    : offsets_(image.array<std::uint32_t>(Section::kTokenOffsets)),
      bytes_(image.bytes(Section::kTokenBytes)),
      flags_(image.array<std::uint8_t>(Section::kTokenFlags)),
      table_(image.array<std::uint32_t>(Section::kTokenTable)) {
  const auto broken = [](std::string_view what) {
    fail(ErrorCode::kBadInput, "[tokenizer.image] the token table's {} are broken", what);
  };
  if (flags_.size() > kMaxTokens || offsets_.size() != flags_.size() + 1) broken("sizes");
  if (!std::has_single_bit(table_.size()) || table_.size() < flags_.size()) broken("slots");
  bool ordered = offsets_[0] == 0 && offsets_.back() == bytes_.size();
  for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) ordered &= offsets_[i] <= offsets_[i + 1];
  if (!ordered) broken("offsets");
}

std::int32_t Vocabulary::find(std::string_view text) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash64(text) & mask;
  for (std::size_t tried = 0; tried <= mask; ++tried, slot = (slot + 1) & mask) {
    const std::uint32_t entry = table_[slot];
    if (entry == 0 || entry > flags_.size()) return -1;
    const auto id = static_cast<std::int32_t>(entry - 1);
    if (this->text(id) == text) return id;
  }
  return -1;
}

}  // namespace ingot
