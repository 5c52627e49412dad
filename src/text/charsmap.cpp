#include "text/charsmap.h"

#include "base/error.h"

#include <cstring>

namespace ingot {
namespace {

std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.empty()) return;
  std::uint32_t size = 0;
  if (blob.size() >= 4) std::memcpy(&size, blob.data(), 4);
  if (size % 4 != 0 || size < 4 || size > blob.size() - 4)
    fail(ErrorCode::kBadInput, "[tokenizer.normalizer] precompiled_charsmap is broken");
  units_ = blob.substr(4, size);
  replacements_ = blob.substr(4 + size);
}

std::optional<std::uint32_t> Charsmap::unit(std::uint32_t at) const {
  if (at >= units_.size() / 4) return std::nullopt;
  std::uint32_t value;
  std::memcpy(&value, units_.data() + std::size_t{at} * 4, 4);
  return value;
}

std::optional<Charsmap::Found> Charsmap::find(std::string_view text, bool first) const {
  std::optional<Found> found;
  if (units_.empty()) return found;
  std::uint32_t at = offset_of(*unit(0));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    at ^= byte;
    const auto value = unit(at);
    if (!value || (*value & ((1u << 31) | 0xff)) != byte) break;
    at ^= offset_of(*value);
    if (((*value >> 8) & 1) == 0) continue;
    const auto leaf = unit(at);
    if (!leaf) break;
    const std::uint32_t index = *leaf & 0x7fffffffu;
    const std::string_view rest =
        index < replacements_.size() ? replacements_.substr(index) : std::string_view();
    found = Found{i + 1, rest.substr(0, rest.find('\0'))};
    if (first) break;
  }
  return found;
}

}  // namespace ingot
