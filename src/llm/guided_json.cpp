#include "llm/guided_json.h"

#include "llm/request_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot {

namespace {

constexpr std::string_view kFields[] = {"response_format", "structured_outputs", "guided_json",
                                        "guided_regex",    "guided_choice",      "guided_grammar"};

const std::string& text_of(const OrderedJson& value, std::string_view key) {
  if (!value.is_string()) refuse("[request.{}] wanted a text", key);
  return value.get_ref<const std::string&>();
}

// A schema as JSON, or as a text that holds it.
GuidedDecoding schema_of(const OrderedJson& value, std::string_view key) {
  if (value.is_string()) return {.kind = GuidedKind::kJsonSchema, .text = text_of(value, key)};
  if (!value.is_object() && !value.is_boolean()) refuse("[request.{}] wanted a JSON Schema", key);
  return {.kind = GuidedKind::kJsonSchema, .text = value.dump()};
}

GuidedDecoding description(std::string_view kind, const OrderedJson& value, std::string_view key) {
  if (kind == "json") return schema_of(value, key);
  if (kind == "regex") return {.kind = GuidedKind::kRegex, .text = text_of(value, key)};
  if (kind == "grammar") return {.kind = GuidedKind::kGrammar, .text = text_of(value, key)};
  if (kind == "choice") return {.kind = GuidedKind::kChoice, .choices = read_texts(value, key)};
  if (kind != "json_object") refuse("[request.{}] this Ingot does not know the field", key);
  if (!read_flag(value, key)) return {};
  return {.kind = GuidedKind::kJsonObject};
}

constexpr std::string_view kOfFormat[] = {"type", "json_schema"};
constexpr std::string_view kOfSchema[] = {"name", "description", "schema", "strict"};

template <typename Names>
void refuse_others(const OrderedJson& object, const Names& names, std::string_view where) {
  for (const auto& [key, value] : object.items())
    if (!value.is_null() && std::ranges::find(names, key) == std::ranges::end(names))
      refuse("[request.{}.{}] this Ingot does not know the field{}", where, key,
             key == "schema" ? "; a schema goes with type json_schema, as json_schema.schema" : "");
}

GuidedDecoding response_format(const OrderedJson& value) {
  if (!value.is_object() || !value.contains("type") || !value.at("type").is_string())
    refuse("[request.response_format] wanted an object with a type");
  const auto type = value.at("type").get<std::string>();
  refuse_others(value, kOfFormat, "response_format");
  if (type != "json_schema" && value.contains("json_schema") && !value.at("json_schema").is_null())
    refuse("[request.response_format.json_schema] {}: it goes with type json_schema",
           dump_json(value.at("type")));
  if (type == "text") return {};
  if (type == "json_object") return {.kind = GuidedKind::kJsonObject};
  if (type != "json_schema")
    refuse("[request.response_format.type] {}: wanted text, json_object or json_schema",
           dump_json(value.at("type")));
  const auto wrapped = value.find("json_schema");
  if (wrapped == value.end() || !wrapped->is_object() || !wrapped->contains("schema"))
    refuse("[request.response_format.json_schema] wanted an object with a schema");
  refuse_others(*wrapped, kOfSchema, "response_format.json_schema");
  return schema_of(wrapped->at("schema"), "response_format.json_schema.schema");
}

}  // namespace

bool is_guided_field(std::string_view key) {
  return std::ranges::find(kFields, key) != std::end(kFields);
}

GuidedDecoding guided_from_json(const OrderedJson& body) {
  GuidedDecoding found;
  std::string by;
  const auto take = [&](GuidedDecoding one, const std::string& key) {
    if (one.kind == GuidedKind::kNone) return;
    if (found.kind != GuidedKind::kNone)
      refuse("[request.{}] the answer's form is given by {} already; wanted one of them", key, by);
    found = std::move(one);
    by = key;
  };
  for (const auto& [key, value] : body.items()) {
    if (!is_guided_field(key) || value.is_null()) continue;
    if (key == "response_format") {
      take(response_format(value), key);
    } else if (key == "structured_outputs") {
      if (!value.is_object()) refuse("[request.structured_outputs] wanted an object");
      bool says = false;
      for (const auto& [kind, one] : value.items()) {
        if (one.is_null()) continue;
        take(description(kind, one, key + "." + kind), key + "." + kind);
        says = true;
      }
      if (!says)
        refuse(
            "[request.structured_outputs] says nothing; wanted json, json_object, regex, choice or "
            "grammar");
    } else {
      take(description(key.substr(std::string_view("guided_").size()), value, key), key);
    }
  }
  return found;
}

}  // namespace ingot
