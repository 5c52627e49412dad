#pragma once

#include "base/error.h"
#include "base/json.h"
#include "runtime/check_sampling.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

// Values of a request's fields. What is not of the wanted kind throws Error{kRequest} with the
// field's name.

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kRequest, format, std::forward<Args>(args)...);
}

double read_number(const OrderedJson& value, std::string_view key);
// A whole number within bounds that are of 32 bits.
std::int32_t read_count(const OrderedJson& value, std::string_view key, CountBounds bounds = {});
bool read_flag(const OrderedJson& value, std::string_view key);
std::vector<std::int32_t> read_ids(const OrderedJson& value, std::string_view key);
// One text or an array of them.
std::vector<std::string> read_texts(const OrderedJson& value, std::string_view key);

}  // namespace ingot
