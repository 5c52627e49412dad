#include "llm/request_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

// What was given, short enough for a message.
std::string shown(const OrderedJson& value) {
  constexpr std::size_t kLongest = 60;
  if (value.is_structured()) return value.type_name();
  const std::string text = dump_json(value);
  return text.size() > kLongest ? value.type_name() : text;
}

}  // namespace

double read_number(const OrderedJson& value, std::string_view key) {
  if (!value.is_number()) refuse("[request.{}] wanted a number", key);
  const double x = value.get<double>();
  if (!std::isfinite(x)) refuse("[request.{}] not a finite number", key);
  return x;
}

std::int32_t read_count(const OrderedJson& value, std::string_view key, CountBounds bounds) {
  if (!value.is_number_integer())
    refuse("[request.{}] {}: wanted a whole number", key, shown(value));
  const bool small =  // enough to be compared
      !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62;
  if (!small || !bounds.hold(value.get<std::int64_t>()))
    refuse("[request.{}] {}: wanted {}", key, value.dump(), bounds.words());
  return value.get<std::int32_t>();
}

bool read_flag(const OrderedJson& value, std::string_view key) {
  if (!value.is_boolean()) refuse("[request.{}] wanted true or false", key);
  return value.get<bool>();
}

std::vector<std::int32_t> read_ids(const OrderedJson& value, std::string_view key) {
  if (!value.is_array()) refuse("[request.{}] wanted an array of token ids", key);
  std::vector<std::int32_t> out;
  out.reserve(value.size());
  for (const OrderedJson& id : value) out.push_back(read_count(id, key, kTokenIds));
  return out;
}

std::vector<std::string> read_texts(const OrderedJson& value, std::string_view key) {
  if (value.is_string()) return {value.get<std::string>()};
  std::vector<std::string> out;
  if (!value.is_array()) refuse("[request.{}] wanted a text or an array of texts", key);
  for (const OrderedJson& one : value) {
    if (!one.is_string()) refuse("[request.{}] wanted a text or an array of texts", key);
    out.push_back(one.get<std::string>());
  }
  return out;
}

}  // namespace ingot
