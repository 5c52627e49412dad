#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ingot {

// Ids of short pieces met before: fixed size, a newer piece takes the place of an older one.
class WordCache {
 public:
  // Cached ids of `piece`, or an empty span.
  std::span<const std::int32_t> find(std::string_view piece) const {
    if (entries_ == nullptr || piece.size() > kMaxBytes) return {};
    const std::size_t at = slot(piece);
    for (const std::size_t way : {at, at ^ 1}) {
      const Entry& entry = entries_[way];
      if (entry.size == piece.size() && std::memcmp(entry.text, piece.data(), piece.size()) == 0)
        return {entry.ids, entry.count};
    }
    return {};
  }

  void put(std::string_view piece, std::span<const std::int32_t> ids) {
    if (piece.empty() || piece.size() > kMaxBytes || ids.empty() || ids.size() > kMaxIds) return;
    if (entries_ == nullptr) entries_ = std::make_unique<Entry[]>(kEntries);
    const std::size_t at = slot(piece);
    Entry& entry = entries_[at];
    if (entry.size != 0) entries_[at ^ 1] = entry;  // the older of the two ways goes
    std::memcpy(entry.text, piece.data(), piece.size());
    std::memcpy(entry.ids, ids.data(), ids.size_bytes());
    entry.size = static_cast<std::uint8_t>(piece.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
  }

 private:
  static constexpr std::size_t kEntries = 1 << 14;
  static constexpr std::size_t kMaxBytes = 30;
  static constexpr std::size_t kMaxIds = 8;
  struct Entry {  // one cache line
    std::int32_t ids[kMaxIds];
    std::uint8_t size = 0;  // 0: empty
    std::uint8_t count = 0;
    char text[kMaxBytes];
  };
  static_assert(sizeof(Entry) == 64);

  static std::size_t slot(std::string_view piece) {
    std::uint64_t a = 0, b = 0;
    const std::size_t n = piece.size();
    if (n >= 8) {
      std::memcpy(&a, piece.data(), 8);
      std::memcpy(&b, piece.data() + n - 8, 8);
      if (n > 16) {
        std::uint64_t c;
        std::memcpy(&c, piece.data() + 8, 8);
        b ^= c * 0x9ddfea08eb382d69u;
      }
    } else {
      for (std::size_t i = 0; i < n; ++i)
        a |= std::uint64_t{static_cast<unsigned char>(piece[i])} << (8 * i);
    }
    std::uint64_t h = (a ^ n) * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 29) ^ b) * 0xbf58476d1ce4e5b9u;
    return static_cast<std::size_t>(h >> 40) & (kEntries - 1);
  }

  std::unique_ptr<Entry[]> entries_;
};

}  // namespace ingot
