#include "text/jinja_registry.h"

#include <algorithm>

namespace ingot::jinja {

FilterFunction find_filter(std::string_view name) {
  if (const FilterFunction found = find_text_filter(name)) return found;
  if (const FilterFunction found = find_sequence_filter(name)) return found;
  return find_json_filter(name);
}

FilterFunction find_method(const Value& receiver, std::string_view name) {
  if (receiver.text()) return find_string_method(name);
  return find_container_method(receiver, name);
}

Parameters::Parameters(Arguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size())
    fail_template("{}() takes at most {} argument(s), {} given", function, names_.size(),
                  arguments.positional.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) fail_template("{}() takes no argument named '{}'", function, name);
    const auto i = static_cast<std::size_t>(at - names_.begin());
    if (values_[i]) fail_template("{}() got two values for '{}'", function, name);
    values_[i] = &value;
  }
}

const Value& Parameters::required(std::size_t i) const {
  if (!values_[i]) fail_template("{}() wants the argument '{}'", function_, names_[i]);
  return *values_[i];
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  if (!values_[i]) return otherwise;
  if (const auto* u = values_[i]->as<Undefined>()) fail_undefined(*u);
  std::int64_t number = 0;
  if (!as_integer(*values_[i], number))
    fail_template("{}(): '{}' must be an integer, got {}", function_, names_[i],
                  type_name(*values_[i]));
  return number;
}

bool Parameters::flag(std::size_t i, bool otherwise) const {
  return values_[i] ? truth(*values_[i]) : otherwise;
}

const Text* Parameters::text(std::size_t i) const {
  if (!values_[i] || values_[i]->is<None>()) return nullptr;
  if (const auto* u = values_[i]->as<Undefined>()) fail_undefined(*u);
  const Text* text = values_[i]->text();
  if (!text)
    fail_template("{}(): '{}' must be a string, got {}", function_, names_[i],
                  type_name(*values_[i]));
  return text;
}

const Text& Parameters::required_text(std::size_t i) const {
  required(i);
  const Text* found = text(i);
  if (!found) fail_template("{}(): '{}' must be a string, got None", function_, names_[i]);
  return *found;
}

}  // namespace ingot::jinja
