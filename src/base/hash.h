#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

// XXH3: checksums of blobs and cache keys. Not for security.
std::uint64_t hash64(std::span<const std::byte> bytes);
std::uint64_t hash64(std::string_view text);
// 32 lower-case hexadecimal digits of the 128-bit hash.
std::string hash128_hex(std::string_view text);

}  // namespace ingot
