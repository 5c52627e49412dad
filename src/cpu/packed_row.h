#pragma once

#include "cpu/packed_weight.h"

#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

// One canonical row of a packed matrix: an embedding table that is the head's weight too is stored
// once, in the head's layout. `row` has WeightFormat::row_bytes(k).
void unpack_row(const PackedWeight& weight, std::int64_t row_number, std::byte* row);

}  // namespace ingot::cpu
