#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot {

// SentencePiece's precompiled_charsmap: u32 size of a Darts double array in bytes, the array, then
// zero-terminated replacements. A view; safe for any content.
class Charsmap {
 public:
  struct Found {
    std::size_t size;  // bytes of the key
    std::string_view to;
  };

  // An empty map is allowed and finds nothing. Throws Error{kBadInput} if sizes do not fit.
  explicit Charsmap(std::string_view blob);

  // The shortest or longest prefix of `text` that the map has.
  std::optional<Found> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Found> longest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Found> find(std::string_view text, bool first) const;
  std::optional<std::uint32_t> unit(std::uint32_t at) const;

  std::string_view units_;
  std::string_view replacements_;
};

}  // namespace ingot
