#pragma once

#include <source_location>
#include <string_view>

namespace ingot {

// Throws Error{kBug}: one step fails, the process lives.
[[noreturn]] void check_failed(std::string_view message, const std::source_location& where);

// An invariant of ours. Never reachable from user input.
inline void check(bool condition, std::string_view message,
                  const std::source_location& where = std::source_location::current()) {
  if (!condition) [[unlikely]]
    check_failed(message, where);
}

}  // namespace ingot
