#pragma once

#include <exception>
#include <string>

namespace ingot {

// What nlohmann::json says is wrong, without its own number for it.
std::string json_reason(const std::exception& exception);

}  // namespace ingot
