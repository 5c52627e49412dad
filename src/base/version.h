#pragma once

namespace ingot {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace ingot
