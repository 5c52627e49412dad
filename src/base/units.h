#pragma once

#include <cstdint>
#include <string>

namespace ingot {

// "1.50 GiB", "93.8 MiB", "1.0 KiB", "12 B".
std::string human_bytes(std::uint64_t bytes);

}  // namespace ingot
