#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/grammar/matching.h"
#include <chrono>

namespace ingot {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Schema : public testing::Test {
 protected:
  void expect(const std::string& schema, const std::vector<std::string>& good,
              const std::vector<std::string>& bad) {
    const auto grammar = tiny_.ready(json_schema(schema));
    for (const auto& text : good)
      EXPECT_TRUE(accepts(tiny_, grammar, text)) << schema << "\n" << text;
    for (const auto& text : bad)
      EXPECT_FALSE(accepts(tiny_, grammar, text)) << schema << "\n" << text;
  }
  void expect_refused(const std::string& schema, const std::string& what) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(tiny_.refusal(json_schema(schema)),
                AllOf(HasSubstr("[guided.json_schema]"), HasSubstr(what)))
        << schema.substr(0, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  TinyCompiler tiny_;
};

TEST_F(Schema, ValuesOfEachType) {
  expect(R"({"type":"boolean"})", {"true", "false"}, {"null", "1", "True"});
  expect(R"({"type":"null"})", {"null"}, {"0", ""});
  expect(R"({"type":["string","integer","null"]})", {"\"a\"", "7", "null"}, {"7.5", "true"});
  expect(R"({"type":"string"})", {R"("")", R"("a\n\u00e9\ud83d\ude00é")"},
         {R"("a)", "\"\n\"", R"("\ud83d")", R"("\x")", R"(a)"});
  expect("{}", {"1", "\"x\"", R"({"a": [1, {"b": null}]})"}, {"{a:1}", "[1,]", "tru"});
  expect("true", {"[]"}, {"]"});
  expect(R"({"const":{"b":1,"a":[2,"é"]}})", {R"({"b":1,"a":[2,"é"]})"},
         {R"({"a":[2,"é"],"b":1})"});
  expect(R"({"enum":["a","ab",1,null]})", {"\"a\"", "\"ab\"", "1", "null"}, {"\"b\"", "2"});
  expect(R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"});
}

TEST_F(Schema, Strings) {
  expect(R"({"type":"string","minLength":2,"maxLength":3})", {R"("ab")", R"("äöü")"},
         {R"("a")", R"("abcd")", R"("a\n")"});
  expect(R"({"type":"string","minLength":2})", {R"("ab")", R"("\nabcdefgh")", R"("\ud83d\ude00a")"},
         {R"("a")", R"("\n")", R"("\ud83d\ude00")"});
  expect(R"({"type":"string","maxLength":1000000})", {R"("abc")"}, {"\"\n\""});
  expect(R"({"pattern":"^a\"\\d\\n$"})", {R"("a\"7\n")"}, {R"("a"7\n")", R"("a\"x\n")"});
  expect(R"({"type":"string","pattern":"b+"})", {R"("b")", R"("abba")", R"("\"b\"")"},
         {R"("aa")", R"("")"});
  const std::string long_run(40, 'x');
  expect(R"({"type":"string","pattern":"^.{2,40}$"})", {R"("aé")", '"' + long_run + '"'},
         {R"("a")", '"' + long_run + "x\""});
  expect(R"({"type":"string","pattern":"^[\\n\\t]{1,20}$"})", {R"("\n\t")"}, {R"("n")", R"("")"});
  expect(R"({"type":"string","format":"date"})", {R"("2024-02-28")"},
         {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"});
  expect(R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"},
         {R"("x")"});
}

TEST_F(Schema, Arrays) {
  expect(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1, 2]", "[ 1,2 ,3 ]"}, {"[]", "[1,2,3,4]", "[1,]", "[\"a\"]"});
  expect(R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"minItems":1})",
         {"[1]", "[1,2]"}, {"[]", "[2]", "[1,2,3]"});
  expect(R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":3},"maxItems":3})",
         {"[]", "[1]", "[1,3,3]"}, {"[3]", "[1,3,3,3]"});
  expect(R"({"type":"array"})", {"[]", "[1,[\"a\"]]"}, {"[", "{}"});
  expect(R"({"type":"array","items":false})", {"[]", "[ ]"}, {"[1]"});
  expect(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
}

TEST_F(Schema, OptionalPropertiesKeepTheirOrderAndEverySubsetIsReachable) {
  const std::string schema = R"({"type":"object","properties":{
      "zone":{"const":1},"area":{"const":2},"room":{"const":3},
      "to_row":{"const":4},"from_row":{"const":5}},"required":["zone","room"]})";
  const auto grammar = tiny_.ready(json_schema(schema));
  const char* members[] = {R"("zone":1)", R"("area":2)", R"("room":3)", R"("to_row":4)",
                           R"("from_row":5)"};
  for (unsigned subset = 0; subset < 32; ++subset) {
    std::string text;
    for (unsigned i = 0; i < 5; ++i)
      if ((subset >> i & 1) != 0) text += (text.empty() ? "" : ",") + std::string(members[i]);
    EXPECT_EQ(accepts(tiny_, grammar, "{" + text + "}"), (subset & 5) == 5) << text;
  }
  EXPECT_FALSE(accepts(tiny_, grammar, R"({"room":3,"zone":1})"));
  EXPECT_FALSE(accepts(tiny_, grammar, R"({"zone":1,"room":3,"from_row":5,"to_row":4})"));
  EXPECT_FALSE(accepts(tiny_, grammar, R"({"zone":1,"zone":1,"room":3})"));
  EXPECT_FALSE(accepts(tiny_, grammar, R"({"zone":1,"room":3,"other":1})"));
  EXPECT_FALSE(accepts(tiny_, grammar, R"({"zone":1,"room":3,})"));
}

TEST_F(Schema, FortyOptionalProperties) {
  std::string properties;
  for (int i = 0; i < 40; ++i)
    properties += fmt::format("{}\"p{}\":{{\"type\":\"integer\"}}", i == 0 ? "" : ",", i);
  expect(R"({"type":"object","properties":{)" + properties + "}}",
         {"{}", R"({"p39":1})", R"({"p0":1,"p20":2,"p39":3})"},
         {R"({"p20":1,"p0":2})", R"({"p40":1})"});
}

TEST_F(Schema, AdditionalProperties) {
  expect(R"({"type":"object","properties":{"a":{"const":1}},"additionalProperties":{"const":2}})",
         {"{}", R"({"a":1})", R"({"a":1,"b":2})", R"({"b":2,"c":2})", R"({"aa":2})", R"({"":2})"},
         {R"({"a":2})", R"({"b":1})", R"({"b":2,"a":1})", R"({"\u0061":2})", R"({"b":2,"a":2})"});
  expect(R"({"type":"object","properties":{"a":{"const":1}},"additionalProperties":true})",
         {R"({"x":[1]})"}, {R"({"a":2})"});
  expect(R"({"type":"object","properties":{"a":{"const":1}},"additionalProperties":false})", {"{}"},
         {R"({"b":1})"});
  expect(R"({"type":"object","additionalProperties":{"type":"integer"}})", {"{}", R"({"x\n":1})"},
         {R"({"x":"1"})"});
  expect(R"({"type":"object","properties":{"a":{}},"required":["b","a"]})", {R"({"a":1,"b":2})"},
         {R"({"a":1})", R"({"b":2,"a":1})"});
  expect_refused(R"({"properties":{"a":{}},"required":["b"],"additionalProperties":false})",
                 "\"b\" is required and not allowed");
  expect(
      R"({"type":"object","propertyNames":{"pattern":"^[a-c]+$"},"additionalProperties":{"const":1}})",
      {"{}", R"({"ab":1})"}, {R"({"d":1})"});
  expect(R"({"type":"object","patternProperties":{"^x":{"const":1}}})", {R"({"xy":1})"},
         {R"({"y":1})"});
}

TEST_F(Schema, NumbersOfProperties) {
  const std::string some =
      R"({"type":"object","properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},)";
  expect(some + R"("minProperties":2})", {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
         {"{}", R"({"b":1})"});
  expect(some + R"("maxProperties":2})", {"{}", R"({"a":1,"c":1})"}, {R"({"a":1,"b":1,"c":1})"});
  expect(some + R"("required":["c"],"maxProperties":1})", {R"({"c":1})"}, {R"({"a":1,"c":1})"});
  expect(
      R"({"type":"object","minProperties":1,"maxProperties":2,"additionalProperties":{"const":1}})",
      {R"({"x":1})", R"({"x":1,"y":1})"}, {"{}", R"({"x":1,"y":1,"z":1})"});
  expect_refused(R"({"type":"object","minProperties":2})", "minProperties");
}

TEST_F(Schema, References) {
  expect(R"({"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},
            "left":{"$ref":"#/$defs/tree"},"right":{"$ref":"#/$defs/tree"}},"required":["v"]}},
            "$ref":"#/$defs/tree"})",
         {R"({"v":1})", R"({"v":1,"left":{"v":2,"right":{"v":3}}})"}, {R"({"left":{"v":1}})"});
  expect(R"({"type":"object","properties":{"tree":{"type":"object","properties":{
            "left":{"anyOf":[{"type":"integer"},{"$ref":"#/properties/tree"}]},
            "n":{"$ref":"#/properties/tree/properties/left/anyOf/0"}}}}})",
         {R"({"tree":{"left":{"left":1},"n":7}})"}, {R"({"tree":{"n":{}}})"});
  expect(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"});
  expect(R"({"$defs":{"a/b~c%":{"const":1}},"$ref":"#/$defs/a~1b~0c%25"})", {"1"}, {"2"});
  // A: only itself or nothing; mutual recursion that ends.
  expect(R"({"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"}}},
            "B":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}},"$ref":"#/$defs/A"})",
         {"{}", R"({"b":{"a":{}}})"}, {R"({"a":{}})"});
  expect_refused(R"({"$ref":"#"})", "lead back to themselves");
  expect_refused(
      R"({"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}},"$ref":"#/$defs/A"})",
      "lead back to themselves");
  expect_refused(R"({"$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"]}},
                     "$ref":"#/$defs/A"})",
                 "no finite text");
  expect_refused(R"({"$ref":"#/$defs/none"})", "leads nowhere");
  expect_refused(R"({"$ref":"https://example.com/schema.json"})", "nothing is fetched");
  expect_refused(R"({"$ref":"#name"})", "not a JSON pointer");
  expect_refused(R"({"allOf":[{"$ref":"#"}],"type":"object"})", "lead back to themselves");
}

TEST_F(Schema, RecursionThroughMergedPartsEnds) {
  expect(R"({"$defs":{"N":{"type":"object","properties":{"c":{"$ref":"#/$defs/N","minProperties":1},
             "v":{"const":1}}}},"$ref":"#/$defs/N"})",
         {"{}", R"({"c":{"v":1}})", R"({"c":{"c":{"v":1}}})"}, {R"({"c":{}})"});
  expect(R"({"$defs":{"N":{"allOf":[{"type":"object","properties":{"c":{"$ref":"#/$defs/N"}}},
             {"properties":{"c":{"maxProperties":1},"v":{"const":1}}}]}},"$ref":"#/$defs/N"})",
         {"{}", R"({"c":{"c":{}},"v":1})"}, {R"({"c":{"c":{},"v":1}})"});
}

TEST_F(Schema, BranchesAndParts) {
  expect(R"({"anyOf":[{"type":"integer"},{"const":"x"}]})", {"1", "\"x\""}, {"\"y\""});
  expect(R"({"type":"integer","anyOf":[{"type":["string","null"]},{"minimum":3,"type":"number"}]})",
         {"3"}, {"2", "3.5", "\"3\"", "null"});
  expect_refused(R"({"type":"integer","anyOf":[{"type":"string"},{"type":"null"}]})",
                 "no type satisfies all parts");
  expect(R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},
            "anyOf":[{"required":["a"]},{"required":["b"]}]})",
         {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {"{}"});
  expect(R"({"allOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},
            {"properties":{"b":{"const":2}},"required":["b"]}]})",
         {R"({"a":1,"b":2})"}, {R"({"a":1})"});
  expect(R"({"allOf":[{"minimum":1,"type":"number"},{"maximum":3,"type":"integer"}]})", {"1", "3"},
         {"0", "4", "1.5"});
  expect(R"({"oneOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]})",
         {"1", "\"a\"", "null"}, {"1.5"});
  expect(
      R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"const":1}},"required":["k"]},
            {"type":"object","properties":{"k":{"const":"b"},"y":{"const":2}},"required":["k"]}]})",
      {R"({"k":"a","x":1})", R"({"k":"b","y":2})"}, {R"({"k":"a","y":2})"});
  expect_refused(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
                 "branches 0 and 1 may both match");
  expect_refused(R"({"oneOf":[{"minimum":1},{"maximum":0}]})", "may both match");
  expect_refused(R"({"allOf":[{"pattern":"a"},{"pattern":"b"}],"type":"string"})", "several parts");
  expect_refused(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},
                     {"properties":{"b":{}}}]})",
                 "names property \"b\"");
  expect_refused(R"({"type":"string","allOf":[{"type":"integer"}]})", "no type satisfies");
}

TEST_F(Schema, NestedOneOf) {
  for (const int depth : {8, 10, 12, 40}) {
    std::string schema = R"({"type":"integer"})";
    for (int i = 0; i < depth; ++i)
      schema = R"({"oneOf":[{"type":"null"},{"type":"array","items":)" + schema + "}]}";
    if (depth <= 12) {
      expect(schema, {"null", "[null]", "[[]]"}, {"[1]"});
    } else {
      expect_refused(schema, "nested deeper");
    }
  }
}

TEST_F(Schema, KeywordsThatAreNotKeptAreRefusedByName) {
  for (const char* keyword :
       {"not", "if", "then", "else", "contains", "minContains", "maxContains", "additionalItems",
        "unevaluatedItems", "unevaluatedProperties", "dependentRequired", "dependentSchemas",
        "dependencies", "nullable", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"})
    expect_refused(
        fmt::format(R"({{"type":"object","properties":{{"a":{{"{}":true}}}}}})", keyword),
        fmt::format("#/properties/a/{}: keyword \"{}\"", keyword, keyword));
  expect_refused(R"({"type":"array","uniqueItems":true})", "\"uniqueItems\"");
  expect_refused(R"({"typ":"array"})", "\"typ\" is not a keyword of JSON Schema");
  expect_refused(R"({"type":"string","format":"iri"})", "format \"iri\"");
  expect_refused(R"({"type":"string","pattern":"a","minLength":3})", "only one of the keywords");
  expect_refused(R"({"enum":["a"],"minLength":3})", "\"minLength\" beside const or enum");
  expect(R"({"type":"integer","title":"t","description":"d","default":0,"examples":[1],"x-order":1,
            "$comment":"c","$schema":"https://json-schema.org/draft/2020-12/schema"})",
         {"5"}, {"\"5\""});
}

TEST_F(Schema, BadSchemasAreRefusedAtOnce) {
  expect_refused(R"({"properties":{"foo":"bar"}})", "#/properties/foo: a schema must be an object");
  expect_refused(R"({"type":"strng"})", "\"strng\" is not a type");
  expect_refused(R"({"type":3})", "3 is not a type");
  for (const char* text : {"\"string\"", "null", "[]", "3"})
    expect_refused(text, "a schema must be an object, true or false");
  expect_refused("{", "the schema");
  expect_refused("", "the schema");
  expect_refused("{\"a\":\"\xff\"}", "the schema");
  expect_refused(std::string(100'000, '[') + std::string(100'000, ']'), "nested deeper");
  expect_refused(R"({"pattern":")" + std::string(50'000, '(') + "\"}", "nested deeper");
  expect_refused("{\"title\":\"" + std::string(5 << 20, 'x') + "\"}", "at most");
  expect_refused("false", "no finite text");
  expect_refused(R"({"enum":[]})", "no finite text");
  expect_refused(R"({"type":"array","minItems":10000})", "more than the 2000");
  expect_refused(R"({"type":"array","minItems":3,"maxItems":2})", "minItems");
  expect_refused(R"({"type":"array","items":false,"minItems":1})", "minItems");
  expect_refused(R"({"type":"string","minLength":-1})", "not a count");
  expect_refused(R"({"required":"a"})", "wanted a list of names");
  expect_refused(R"({"required":[1]})", "wanted a list of names");
  expect_refused(R"({"properties":[]})", "wanted an object");
  expect_refused(R"({"items":[{}]})", "prefixItems");
  expect_refused(R"({"anyOf":[]})", "wanted a list of schemas");
}

TEST_F(Schema, LargeSchemasCompile) {
  std::string properties;
  for (int i = 0; i < 200; ++i) {
    std::string values;
    for (int k = 0; k < 100; ++k)
      values += fmt::format("{}\"value {} of {}\"", k == 0 ? "" : ",", k * 7919 % 1000, i);
    properties += fmt::format("{}\"p{}\":{{\"enum\":[{}]}}", i == 0 ? "" : ",", i, values);
  }
  const auto grammar = tiny_.ready(json_schema("{\"properties\":{" + properties + "}}"));
  EXPECT_TRUE(accepts(tiny_, grammar, R"({"p0":"value 0 of 0","p199":"value 919 of 199"})"));
}

TEST_F(Schema, JsonObject) {
  const auto grammar = tiny_.ready({.kind = GrammarKind::kJsonObject});
  for (const char* text : {"{}", R"({"a": {"b": [1, 2.5e3, "x", true, null]}})"})
    EXPECT_TRUE(accepts(tiny_, grammar, text)) << text;
  for (const char* text : {"[]", "1", "{\"a\"}", "{\"a\":01}", "{} "})
    EXPECT_FALSE(accepts(tiny_, grammar, text)) << text;
}

}  // namespace
}  // namespace ingot
