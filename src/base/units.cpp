#include "base/units.h"

#include <fmt/core.h>

namespace ingot {

std::string human_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::uint64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= std::uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  if (bytes >= std::uint64_t{1} << 10) return fmt::format("{:.1f} KiB", value / (1 << 10));
  return fmt::format("{} B", bytes);
}

}  // namespace ingot
