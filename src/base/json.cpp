#include "base/json.h"

#include "base/error.h"
#include "base/json_reason.h"

#include <nlohmann/json.hpp>

namespace ingot {

namespace {

// Depth is checked on the raw text first: nlohmann's DOM parser is iterative, but its destructor
// and our own walkers are not worth trusting with a million brackets.
void check_depth(std::string_view text, std::string_view what, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth)
        fail(ErrorCode::kBadInput, "[json] {}: nested deeper than {} levels at byte {}", what,
             max_depth, i);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Where all is one line its number says nothing, and `what` may name another.
std::string reason_in(std::string_view text, const std::exception& e) {
  constexpr std::string_view kStart = "parse error at ", kLine = "line 1, ";
  std::string reason = json_reason(e);
  if (text.find('\n') == text.npos && reason.starts_with(kStart) &&
      reason.compare(kStart.size(), kLine.size(), kLine) == 0)
    reason.erase(kStart.size(), kLine.size());
  return reason;
}

template <typename J>
J parse(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail(ErrorCode::kBadInput, "[json] {}: {} bytes, at most {} are read", what, text.size(),
         limits.max_bytes);
  check_depth(text, what, limits.max_depth);
  try {
    return J::parse(text);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kBadInput, "[json] {}: {}", what, reason_in(text, e));
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return parse<Json>(text, what, limits);
}

OrderedJson parse_ordered_json(std::string_view text, std::string_view what,
                               const JsonLimits& limits) {
  return parse<OrderedJson>(text, what, limits);
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json(const OrderedJson& value, int indent) {
  return value.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace ingot
