#pragma once

#include "base/json.h"
#include "text/jinja_value.h"

namespace ingot::jinja {

// The value of JSON data. With `foreign`, every string in it (keys too) is marked as the caller's.
Value from_json(Budget& budget, const OrderedJson& json, bool foreign);

struct JsonStyle {
  int indent = -1;  // negative: one line
  std::string indent_text;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
// json.dumps of Python. Strings keep their marks.
TextPtr to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace ingot::jinja
