#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace ingot {

// Walks untrusted little-endian bytes; every step is checked against what is left. Throws
// Error{kBadInput} "[<format>.truncated] <file>: ..." naming what was wanted.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view format, std::string_view file)
      : bytes_(bytes), format_(format), file_(file) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > remaining())
      fail(ErrorCode::kBadInput, "[{}.truncated] {}: {} at byte {} needs {} bytes, {} are left",
           format_, file_, what, position_, count, remaining());
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  std::string_view text(std::uint64_t count, std::string_view what) {
    const auto taken = take(count, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  template <typename T>
  T number(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view format_;
  std::string_view file_;
  std::uint64_t position_ = 0;
};

}  // namespace ingot
