#include "base/json_keys.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ingot {
namespace {

std::optional<std::string> repeated(const std::string& text) {
  return repeated_key(text, parse_ordered_json(text, "a text"));
}

TEST(JsonKeysTest, RepeatedOnesAreFoundHoweverWritten) {
  for (const char* text : {"7", "\"a:b\"", "[]", "{}", R"({"a": {"a": [{"a": ":\":"}, {"a": 1}]}})",
                           R"({"a\\": 1, "a": {"b:": "\\"}, "c": [":"]})"})
    EXPECT_EQ(repeated(text), std::nullopt) << text;
  EXPECT_EQ(repeated(R"({"a": 1, "b": 2, "a": 1})"), "a");
  EXPECT_EQ(repeated(R"([{"c": {"a": 1}, "a": [{"b": 1, "\u0062": ":"}]}])"), "b");
  EXPECT_EQ(repeated(R"({"": 1, "": 2})"), "");
  EXPECT_EQ(repeated(R"({"a": {"b": 1, "c": 2}, "a": 3})"), "a") << "what went had keys";
}

TEST(JsonTest, ALineByItselfHasNoNumber) {
  for (const auto& [text, where] : {std::pair("{\"a\"", ": parse error at column 5: "),
                                    {"{\n\"a\"", ": parse error at line 2, column 4: "}}) {
    try {
      parse_ordered_json(text, "line 28");
      ADD_FAILURE() << text;
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find("line 28" + std::string(where)), std::string::npos)
          << e.what();
    }
  }
}

}  // namespace
}  // namespace ingot
