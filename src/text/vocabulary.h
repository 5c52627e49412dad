#pragma once

#include "text/image.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ingot {

// The tokens of an image: id to spelling and back. Ids given may be any number.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Throws Error{kBadInput} if the tables do not fit each other.
  explicit Vocabulary(const ImageView& image);

  int size() const { return static_cast<int>(flags_.size()); }
  bool has(std::int32_t id) const { return (flags(id) & kPresent) != 0; }
  std::uint8_t flags(std::int32_t id) const {
    return id >= 0 && id < size() ? flags_[static_cast<std::size_t>(id)] : std::uint8_t{0};
  }
  std::string_view text(std::int32_t id) const {
    if (id < 0 || id >= size()) return {};
    const auto i = static_cast<std::size_t>(id);
    return bytes_.substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  // -1: none.
  std::int32_t find(std::string_view text) const;
  // Among the tokens that the model may produce; -1: none.
  std::int32_t find_in_model(std::string_view text) const {
    const std::int32_t id = find(text);
    return id >= 0 && (flags(id) & kInModel) != 0 ? id : -1;
  }

  // Among all tokens of the model's vocabulary; -1: none.
  std::int32_t find_in_vocab(std::string_view text) const {
    const std::int32_t id = find(text);
    return id >= 0 && (flags(id) & kModelVocab) != 0 ? id : -1;
  }

 private:
  std::span<const std::uint32_t> offsets_;
  std::string_view bytes_;
  std::span<const std::uint8_t> flags_;
  std::span<const std::uint32_t> table_;
};

}  // namespace ingot
