#pragma once

#include "base/json.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ingot::grammar {

// JSON types as bits.
enum JsonType : std::uint32_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,  // whole numbers
  kNumberType = 8,   // all numbers, the whole ones included
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAllTypes = kNullType | kBooleanType | kNumberType | kStringType | kArrayType | kObjectType,
};

// What a keyword of JSON Schema is to us.
struct KeywordInfo {
  std::string_view name;
  std::uint32_t types = 0;        // that it constrains; 0: none in particular
  std::string_view refusal = {};  // why it is not supported; empty: it is
  bool annotation = false;        // says nothing about what is valid
};
// Null: not a keyword of JSON Schema.
const KeywordInfo* keyword_info(std::string_view name);

// A part of the schema and its place, as a JSON pointer for messages: "#/properties/a".
struct Sited {
  const OrderedJson* value = nullptr;
  std::string path;
};

// The keywords that hold for one value, gathered from a schema and what it refers to.
using Keywords = std::map<std::string, Sited, std::less<>>;

inline const Sited* find(const Keywords& keywords, std::string_view name) {
  const auto it = keywords.find(name);
  return it == keywords.end() ? nullptr : &it->second;
}

[[noreturn]] void refuse_schema(std::string_view path, std::string_view what);

// Types of `type` ("string" or a list); kAllTypes when it is absent.
std::uint32_t types_of(const Keywords& keywords);
std::uint32_t type_of(const OrderedJson& value);  // one bit; whole numbers are kIntegerType
// Whether a value of that one type is of one of `types`.
bool is_of(std::uint32_t type, std::uint32_t types);
// Whether a value can be of one of each.
bool share_type(std::uint32_t a, std::uint32_t b);

// A count (minLength, maxItems, ...): a whole number from 0 to `limit`; `absent` if the keyword is.
int count_of(const Keywords& keywords, std::string_view name, int absent, int limit);

}  // namespace ingot::grammar
