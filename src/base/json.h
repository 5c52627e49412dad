#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

// Limits around nlohmann::json for untrusted text. Include <nlohmann/json.hpp> in .cpp files only.
namespace ingot {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{1} << 30;
  int max_depth = 256;
};

// Parses `text`; throws Error{kBadInput} that names `what` and the position, also for
// over-deep structures. Never recurses past max_depth.
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});
// The same, keeping the order of keys.
OrderedJson parse_ordered_json(std::string_view text, std::string_view what,
                               const JsonLimits& limits = {});

// Compact text, keys sorted (Json) or in order (OrderedJson). Bytes that are not UTF-8 become
// U+FFFD.
std::string dump_json(const Json& value, int indent = -1);
std::string dump_json(const OrderedJson& value, int indent = -1);

}  // namespace ingot
