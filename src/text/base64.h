#pragma once

#include <string>
#include <string_view>

namespace ingot {

// Standard alphabet, padding optional; throws Error{kBadInput} for anything else.
std::string decode_base64(std::string_view text);

}  // namespace ingot
