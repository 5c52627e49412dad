#pragma once

#include <string_view>

namespace ingot::cpu {

// Names of layouts, as stored in engines: panels of 32 rows (simd/packed_format.h), and the
// canonical rows.
inline constexpr std::string_view kPanelLayout = "cpu_panel32";
inline constexpr std::string_view kRowLayout = "row_major";

}  // namespace ingot::cpu
