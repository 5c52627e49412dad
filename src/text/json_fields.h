#pragma once

#include "base/error.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Typed access to the parts of tokenizer.json; every mistake is Error{kBadInput}. For .cpp files of
// this floor only, since it brings nlohmann/json in full.
namespace ingot {

inline const nlohmann::json* find_field(const nlohmann::json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(name);
  return it == json.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] inline void bad_field(std::string_view name, std::string_view wanted) {
  fail(ErrorCode::kBadInput, "[tokenizer.json] field {:?}: wanted {}", name, wanted);
}

inline bool bool_field(const nlohmann::json& json, std::string_view name, bool fallback) {
  const auto* field = find_field(json, name);
  if (field == nullptr) return fallback;
  if (!field->is_boolean()) bad_field(name, "true or false");
  return field->get<bool>();
}

inline std::string string_field(const nlohmann::json& json, std::string_view name,
                                std::string_view fallback = {}) {
  const auto* field = find_field(json, name);
  if (field == nullptr) return std::string(fallback);
  if (!field->is_string()) bad_field(name, "a string");
  return field->get<std::string>();
}

inline std::int64_t int_field(const nlohmann::json& json, std::string_view name,
                              std::int64_t fallback) {
  const auto* field = find_field(json, name);
  if (field == nullptr) return fallback;
  if (!field->is_number_integer()) bad_field(name, "an integer");
  return field->get<std::int64_t>();
}

// The parts of a Sequence, or of anything else that must be an array.
inline const nlohmann::json& array_field(const nlohmann::json& json, std::string_view name) {
  const auto* field = find_field(json, name);
  if (field == nullptr || !field->is_array()) bad_field(name, "an array");
  return *field;
}

[[noreturn]] inline void unknown_type(std::string_view part, std::string_view type) {
  fail(ErrorCode::kBadInput, "[tokenizer.json] {} of type {:?} is not supported", part, type);
}

}  // namespace ingot
