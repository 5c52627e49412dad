#pragma once

#include "device/device.h"

#include <string>
#include <vector>

namespace ingot::cuda {

// Linear and attention of a row alone against the same row among others, bit by bit. What differs,
// one line each.
std::vector<std::string> check_row_bits(Device& device);

}  // namespace ingot::cuda
