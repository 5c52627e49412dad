#pragma once

#include "base/json.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ingot::cli {

// To standard output, at once. Throws Error{kSystem} when it cannot be written.
void print(std::string_view text);
// One line.
void print_json(const OrderedJson& value);
// Standard input to its end.
std::string read_standard_input();
bool input_is_terminal();

// Throws Error{kUsage} when the file `out` is one of `inputs`, under whatever name: it would
// replace what it is made from.
void refuse_over_input(const std::string& out, std::span<const std::filesystem::path> inputs);
// The same of two outputs that are one file or stream: one of them would be lost.
void refuse_one_output(const std::string& out, const std::string& other);

}  // namespace ingot::cli
