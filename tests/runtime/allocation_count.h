#pragma once

#include <cstdint>

namespace ingot::test {

// Times that this thread has taken memory with `new`, by whatever name, since the program began.
std::uint64_t allocations();

}  // namespace ingot::test
