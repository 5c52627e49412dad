#include "llm/guided_json.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ingot {
namespace {

GuidedDecoding read(const std::string& body) {
  return guided_from_json(parse_ordered_json(body, "a body"));
}

std::string refusal(const std::string& body) {
  try {
    read(body);
    return {};
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kRequest);
    return e.message();
  }
}

TEST(GuidedJsonTest, EveryWayToSayIt) {
  EXPECT_EQ(read("{}").kind, GuidedKind::kNone);
  EXPECT_EQ(read(R"({"response_format": {"type": "text"}})").kind, GuidedKind::kNone);
  EXPECT_EQ(read(R"({"response_format": {"type": "json_object"}})").kind, GuidedKind::kJsonObject);
  for (const char* body :
       {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true,
           "schema": {"b": 1, "a": 2}}}})",
        R"({"guided_json": {"b": 1, "a": 2}})", R"({"guided_json": "{\"b\":1,\"a\":2}"})",
        R"({"structured_outputs": {"json": {"b": 1, "a": 2}, "regex": null}})"}) {
    const GuidedDecoding g = read(body);
    EXPECT_EQ(g.kind, GuidedKind::kJsonSchema) << body;
    EXPECT_EQ(g.text, R"({"b":1,"a":2})") << "the order of keys is the schema's";
  }
  EXPECT_EQ(read(R"({"guided_regex": "a+"})").text, "a+");
  EXPECT_EQ(read(R"({"structured_outputs": {"regex": "a+"}})").kind, GuidedKind::kRegex);
  EXPECT_EQ(read(R"({"guided_grammar": "root ::= \"a\""})").kind, GuidedKind::kGrammar);
  const GuidedDecoding choice = read(R"({"guided_choice": ["yes", "no"], "guided_json": null})");
  EXPECT_EQ(choice.kind, GuidedKind::kChoice);
  EXPECT_EQ(choice.choices, (std::vector<std::string>{"yes", "no"}));
  EXPECT_EQ(read(R"({"structured_outputs": {"json_object": true}})").kind, GuidedKind::kJsonObject);
}

TEST(GuidedJsonTest, WhatIsWrongIsNamed) {
  for (const auto& [field, body] : std::vector<std::pair<std::string, std::string>>{
           {"response_format", R"({"response_format": "json_object"})"},
           {"response_format.type", R"({"response_format": {"type": "yaml"}})"},
           {"response_format.json_schema", R"({"response_format": {"type": "json_schema"}})"},
           {"response_format.schema",
            R"({"response_format": {"type": "json_object", "schema": {}}})"},
           {"response_format.json_schema",
            R"({"response_format": {"type": "text", "json_schema": {"schema": {}}}})"},
           {"response_format.json_schema.Schema",
            R"({"response_format": {"type": "json_schema", "json_schema":
                {"schema": {}, "Schema": {}}}})"},
           {"guided_json", R"({"guided_json": [1]})"},
           {"guided_regex", R"({"guided_regex": 5})"},
           {"guided_choice", R"({"guided_choice": [1]})"},
           {"structured_outputs.yaml", R"({"structured_outputs": {"yaml": "x"}})"},
           {"structured_outputs", R"({"structured_outputs": {}})"},
           {"structured_outputs", R"({"structured_outputs": {"json": null}})"},
           {"guided_regex", R"({"guided_choice": ["a"], "guided_regex": "a"})"}})
    EXPECT_EQ(refusal(body).find("[request." + field + "]"), 0u) << body << ": " << refusal(body);
}

}  // namespace
}  // namespace ingot
