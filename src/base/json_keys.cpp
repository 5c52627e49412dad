#include "base/json_keys.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace ingot {

namespace {

// Outside strings; in good JSON one for each key.
std::size_t count_colons(std::string_view text) {
  std::size_t colons = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"')
      in_string = !in_string;
    else if (text[i] == '\\')
      ++i;
    else if (text[i] == ':' && !in_string)
      ++colons;
  }
  return colons;
}

std::size_t count_keys(const OrderedJson& json) {
  std::size_t keys = json.is_object() ? json.size() : 0;
  if (json.is_structured())
    for (const OrderedJson& one : json) keys += count_keys(one);
  return keys;
}

}  // namespace

std::optional<std::string> repeated_key(std::string_view text, const OrderedJson& json) {
  if (count_keys(json) == count_colons(text)) return std::nullopt;
  using Event = OrderedJson::parse_event_t;
  std::vector<std::set<std::string>> open;  // keys of the objects around
  std::optional<std::string> repeated;
  [[maybe_unused]] const OrderedJson again = OrderedJson::parse(text, [&](int, Event event,
                                                                          OrderedJson& parsed) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !repeated && !open.back().insert(parsed.get<std::string>()).second)
      repeated = parsed.get<std::string>();
    return true;
  });
  return repeated;
}

}  // namespace ingot
