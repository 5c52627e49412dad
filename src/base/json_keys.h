#pragma once

#include "base/json.h"

#include <optional>
#include <string>
#include <string_view>

namespace ingot {

// The first key that an object within `text` has twice, if any. `json` is what the text was
// parsed to, which kept the last value: nobody knows which one was meant. Costs a look at each
// character; the key is searched for only where there is one.
std::optional<std::string> repeated_key(std::string_view text, const OrderedJson& json);

}  // namespace ingot
