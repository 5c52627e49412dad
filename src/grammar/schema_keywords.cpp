#include "grammar/schema_keywords.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ingot::grammar {

namespace {

constexpr std::string_view kCannotCompare = "it compares parts of a value with each other";
constexpr std::string_view kCannotNegate = "what a schema excludes cannot be generated from";

constexpr KeywordInfo kKeywords[] = {
    {.name = "type"},
    {.name = "const"},
    {.name = "enum"},
    {.name = "anyOf"},
    {.name = "oneOf"},
    {.name = "allOf"},
    {.name = "$ref"},
    {.name = "minimum", .types = kNumberType},
    {.name = "maximum", .types = kNumberType},
    {.name = "exclusiveMinimum", .types = kNumberType},
    {.name = "exclusiveMaximum", .types = kNumberType},
    {.name = "multipleOf", .types = kNumberType},
    {.name = "minLength", .types = kStringType},
    {.name = "maxLength", .types = kStringType},
    {.name = "pattern", .types = kStringType},
    {.name = "format", .types = kStringType},
    {.name = "items", .types = kArrayType},
    {.name = "prefixItems", .types = kArrayType},
    {.name = "minItems", .types = kArrayType},
    {.name = "maxItems", .types = kArrayType},
    {.name = "uniqueItems", .types = kArrayType},
    {.name = "properties", .types = kObjectType},
    {.name = "required", .types = kObjectType},
    {.name = "additionalProperties", .types = kObjectType},
    {.name = "propertyNames", .types = kObjectType},
    {.name = "patternProperties", .types = kObjectType},
    {.name = "minProperties", .types = kObjectType},
    {.name = "maxProperties", .types = kObjectType},

    {.name = "not", .refusal = kCannotNegate},
    {.name = "if", .refusal = kCannotNegate},
    {.name = "then", .refusal = kCannotNegate},
    {.name = "else", .refusal = kCannotNegate},
    {.name = "contains", .types = kArrayType, .refusal = kCannotCompare},
    {.name = "minContains", .types = kArrayType, .refusal = kCannotCompare},
    {.name = "maxContains", .types = kArrayType, .refusal = kCannotCompare},
    {.name = "additionalItems", .types = kArrayType, .refusal = "write prefixItems and items"},
    {.name = "unevaluatedItems", .types = kArrayType, .refusal = "write prefixItems and items"},
    {.name = "unevaluatedProperties",
     .types = kObjectType,
     .refusal = "write additionalProperties"},
    {.name = "dependentRequired", .types = kObjectType, .refusal = kCannotCompare},
    {.name = "dependentSchemas", .types = kObjectType, .refusal = kCannotCompare},
    {.name = "dependencies", .types = kObjectType, .refusal = kCannotCompare},
    {.name = "nullable", .refusal = "write \"type\": [..., \"null\"]"},
    {.name = "$dynamicRef", .refusal = "write $ref"},
    {.name = "$recursiveRef", .refusal = "write $ref"},
    {.name = "$dynamicAnchor", .refusal = "write $ref with a JSON pointer"},
    {.name = "$recursiveAnchor", .refusal = "write $ref with a JSON pointer"},
    {.name = "$anchor", .refusal = "write $ref with a JSON pointer"},

    {.name = "title", .annotation = true},
    {.name = "description", .annotation = true},
    {.name = "default", .annotation = true},
    {.name = "example", .annotation = true},
    {.name = "examples", .annotation = true},
    {.name = "deprecated", .annotation = true},
    {.name = "readOnly", .annotation = true},
    {.name = "writeOnly", .annotation = true},
    {.name = "contentEncoding", .annotation = true},
    {.name = "contentMediaType", .annotation = true},
    {.name = "contentSchema", .annotation = true},
    {.name = "discriminator", .annotation = true},  // OpenAPI: names what oneOf already says
    {.name = "externalDocs", .annotation = true},
    {.name = "xml", .annotation = true},
    {.name = "$comment", .annotation = true},
    {.name = "$schema", .annotation = true},
    {.name = "$id", .annotation = true},
    {.name = "$vocabulary", .annotation = true},
    {.name = "$defs", .annotation = true},  // looked at where a $ref points at them
    {.name = "definitions", .annotation = true},
};

std::uint32_t type_named(std::string_view name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBooleanType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kNumberType;
  if (name == "string") return kStringType;
  if (name == "array") return kArrayType;
  if (name == "object") return kObjectType;
  return 0;
}

}  // namespace

const KeywordInfo* keyword_info(std::string_view name) {
  const auto* it = std::ranges::find(kKeywords, name, &KeywordInfo::name);
  return it == std::end(kKeywords) ? nullptr : it;
}

void refuse_schema(std::string_view path, std::string_view what) {
  fail(ErrorCode::kRequest, "[guided.json_schema] {}: {}", path, what);
}

std::uint32_t types_of(const Keywords& keywords) {
  const Sited* type = find(keywords, "type");
  if (type == nullptr) return kAllTypes;
  std::uint32_t types = 0;
  const auto add = [&](const OrderedJson& name) {
    const std::uint32_t one =
        name.is_string() ? type_named(name.get_ref<const std::string&>()) : 0u;
    if (one == 0)
      refuse_schema(type->path, fmt::format("{} is not a type of JSON", dump_json(name)));
    types |= one;
  };
  if (type->value->is_array()) {
    if (type->value->empty()) refuse_schema(type->path, "an empty list of types allows nothing");
    for (const OrderedJson& name : *type->value) add(name);
  } else {
    add(*type->value);
  }
  return types;
}

std::uint32_t type_of(const OrderedJson& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_number_integer()) return kIntegerType;
  if (value.is_number()) {
    const auto number = value.get<double>();
    return std::floor(number) == number ? kIntegerType : kNumberType;
  }
  if (value.is_string()) return kStringType;
  return value.is_array() ? kArrayType : kObjectType;
}

bool is_of(std::uint32_t type, std::uint32_t types) {
  return (type & types) != 0 || (type == kIntegerType && (types & kNumberType) != 0);
}

bool share_type(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kNumbers = kIntegerType | kNumberType;
  return (a & b) != 0 || ((a & kNumbers) != 0 && (b & kNumbers) != 0);
}

int count_of(const Keywords& keywords, std::string_view name, int absent, int limit) {
  const Sited* keyword = find(keywords, name);
  if (keyword == nullptr) return absent;
  const OrderedJson& value = *keyword->value;
  if (!value.is_number() || type_of(value) != kIntegerType || value.get<double>() < 0)
    refuse_schema(keyword->path, fmt::format("{} is not a count", dump_json(value)));
  if (value.get<double>() > limit)
    refuse_schema(keyword->path, fmt::format("{} is more than the {} that are supported",
                                             dump_json(value), limit));
  return static_cast<int>(value.get<double>());
}

}  // namespace ingot::grammar
