#pragma once

#include <cstddef>

namespace ingot {

// Bytes [begin, end) of a rendered prompt.
struct PromptSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const PromptSpan&) const = default;
};

}  // namespace ingot
