#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::safetensors {

// One entry of the JSON header as written; nothing is checked against the file yet.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

// Parses the header's text. Throws Error{kBadInput} on anything but a flat object of well-formed
// entries, on a name that occurs twice and on sizes outside [0, 2^63). `file` is for messages.
std::vector<Entry> parse_header(std::string_view json, std::string_view file);

}  // namespace ingot::safetensors
