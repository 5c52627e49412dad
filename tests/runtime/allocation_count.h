#pragma once

#include <cstdint>

namespace ingot::test {

// Whether this build counts: a sanitizer's does not.
bool counts_allocations();

// Times that this thread has taken memory with `new`, by whatever name, since the program began.
std::uint64_t allocations();
// The same, of all threads together.
std::uint64_t allocations_of_all_threads();

// Bytes that all threads have taken with `new` and not given back.
std::int64_t live_bytes();

}  // namespace ingot::test
