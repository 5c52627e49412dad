#pragma once

#include "text/jinja_value.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The filters, tests, methods and functions of the language, by name; null or nothing if unknown.
namespace ingot::jinja {

using FilterFunction = Value (*)(Interpreter&, const Value&, Arguments&);
using TestFunction = bool (*)(Interpreter&, const Value&, Arguments&);

FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
// A method of str, list, tuple or dict.
FilterFunction find_method(const Value& receiver, std::string_view name);
// range, namespace, raise_exception, strftime_now, dict, cycler, joiner.
std::optional<Value> find_global(Interpreter& interpreter, std::string_view name);

// One table a file; find_filter asks them in turn.
struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_sequence_filter(std::string_view name);
FilterFunction find_json_filter(std::string_view name);
FilterFunction find_string_method(std::string_view name);
FilterFunction find_container_method(const Value& receiver, std::string_view name);

// Distributes the arguments of a call over named parameters, as Python does. Throws Failure.
class Parameters {
 public:
  Parameters(Arguments& arguments, std::string_view function,
             std::initializer_list<std::string_view> names);

  const Value* get(std::size_t i) const { return values_[i]; }
  const Value& required(std::size_t i) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;
  // The text of a string argument, null when absent (or None); fails on other types.
  const Text* text(std::size_t i) const;
  const Text& required_text(std::size_t i) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace ingot::jinja
