#include "formats/hf_config.h"

#include "tests/formats/file_bytes.h"
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace ingot {
namespace {

using test::expect_bad_input;

const HfConfig kConfig = HfConfig::from_text(R"({
  "hidden_size": 64, "eps": 1e-5, "tie": true, "type": "llama", "none": null, "big": 18446744073709551615,
  "as_float": 8.0, "half": 0.5, "eos": [1, 2], "one": 7, "names": ["a", "b"], "mixed": [1, "x"],
  "limit": [0.0, Infinity], "low": -Infinity, "nan": NaN, "note": "Infinity \"NaN\" is text",
  "rope": {"type": "llama3", "factor": 8, "deep": {"x": "y"}}})",
                                             "dir/config.json");

TEST(HfConfig, ReadsTypedValues) {
  EXPECT_EQ(kConfig.integer("hidden_size"), 64);
  EXPECT_EQ(kConfig.integer("as_float"), 8);
  EXPECT_EQ(kConfig.number("eps"), 1e-5);
  EXPECT_EQ(kConfig.number("hidden_size"), 64.0);
  EXPECT_TRUE(kConfig.boolean("tie"));
  EXPECT_EQ(kConfig.text("type"), "llama");
  EXPECT_EQ(kConfig.integers("eos"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(kConfig.integers("one"), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(kConfig.texts("names"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(kConfig.texts("type"), (std::vector<std::string>{"llama"}));
  EXPECT_EQ(kConfig.child("rope").integer("factor"), 8);
  EXPECT_EQ(kConfig.child("rope").child("deep").text("x"), "y");
  EXPECT_TRUE(kConfig.is_list("eos"));
  EXPECT_TRUE(kConfig.is_object("rope"));
  EXPECT_TRUE(kConfig.is_text("type"));
  EXPECT_FALSE(kConfig.is_text("absent"));
  EXPECT_EQ(HfConfig().keys().size(), 0u);
}

TEST(HfConfig, AbsentAndNullAreTheSame) {
  EXPECT_FALSE(kConfig.has("none"));
  EXPECT_FALSE(kConfig.has("absent"));
  EXPECT_EQ(kConfig.find_integer("none"), std::nullopt);
  EXPECT_EQ(kConfig.find_boolean("absent"), std::nullopt);
  EXPECT_FALSE(kConfig.find_child("none").has_value());
  expect_bad_input([] { kConfig.integer("none"); }, {"[config.none] missing in dir/config.json"});
  expect_bad_input([] { kConfig.child("absent"); }, {"[config.absent] missing"});
  expect_bad_input([] { kConfig.child("rope").child("deep").integer("z"); },
                   {"[config.rope.deep.z] missing in dir/config.json"});
}

TEST(HfConfig, WrongTypesAreNamed) {
  expect_bad_input([] { kConfig.integer("type"); },
                   {"[config.type]", "\"llama\"", "wanted an integer"});
  expect_bad_input([] { kConfig.integer("half"); }, {"0.5", "wanted an integer"});
  expect_bad_input([] { kConfig.integer("big"); }, {"18446744073709551615"});
  expect_bad_input([] { kConfig.integer("low"); }, {"wanted an integer"});
  expect_bad_input([] { kConfig.find_number("type"); }, {"wanted a number"});
  expect_bad_input([] { kConfig.boolean("one"); }, {"wanted true or false"});
  expect_bad_input([] { kConfig.text("one"); }, {"wanted a text"});
  expect_bad_input([] { kConfig.texts("mixed"); }, {"[config.mixed]", "wanted a text"});
  expect_bad_input([] { kConfig.child("one"); }, {"wanted an object"});
  expect_bad_input([] { kConfig.refuse("one", "must be even"); },
                   {"[config.one] dir/config.json: must be even"});
}

TEST(HfConfig, AcceptsPythonsNumbersOutsideOfTexts) {
  EXPECT_TRUE(std::isinf(kConfig.numbers("limit")[1]));
  EXPECT_LT(kConfig.number("low"), 0);
  EXPECT_TRUE(std::isinf(kConfig.number("low")));
  EXPECT_TRUE(std::isnan(kConfig.number("nan")));
  EXPECT_EQ(kConfig.text("note"), "Infinity \"NaN\" is text");
}

TEST(HfConfig, RefusesWhatIsNoObject) {
  for (const char* bad : {"", "[]", "3", "{", "{\"a\":}", "null"})
    expect_bad_input([&] { HfConfig::from_text(bad, "c.json"); }, {"c.json"});
  expect_bad_input([&] { HfConfig::from_text(std::string(100000, '['), "c.json"); }, {"nested"});
}

TEST(HfConfig, ChildrenOutliveTheirParent) {
  std::optional<HfConfig> child;
  {
    const HfConfig parent = HfConfig::from_text(R"({"a":{"b":5}})", "p.json");
    child = parent.child("a");
  }
  EXPECT_EQ(child->integer("b"), 5);
}

}  // namespace
}  // namespace ingot
