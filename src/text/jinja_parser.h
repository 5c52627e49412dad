#pragma once

#include "text/jinja_ast.h"

#include <memory>
#include <string_view>

namespace ingot::jinja {

// Reads a template. Throws Error{kBadInput}: "[jinja.parse] line 3 column 7: ...".
std::shared_ptr<const Program> parse_program(std::string_view source, const Limits& limits = {});

}  // namespace ingot::jinja
