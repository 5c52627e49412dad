#include "grammar/number_range.h"

#include "grammar/ebnf_printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/grammar/matching.h"
#include <cmath>
#include <random>

namespace ingot {
namespace {

class NumberRange : public testing::Test {
 protected:
  // Through a schema, since that is how ranges come.
  CompiledGrammarPtr schema(const std::string& text) { return tiny_.ready(json_schema(text)); }
  bool accepts(const CompiledGrammarPtr& grammar, const std::string& text) {
    return ingot::accepts(tiny_, grammar, text);
  }
  TinyCompiler tiny_;
};

TEST_F(NumberRange, EveryIntegerOfARangeAndNoOther) {
  struct Range {
    int low, high, multiple;
  };
  for (const Range& r :
       {Range{-123, 42, 1}, Range{3, 3, 1}, Range{0, 999, 1}, Range{-5, -1, 1}, Range{9, 101, 1},
        Range{-300, 300, 7}, Range{1, 1500, 25}, Range{0, 0, 1}}) {
    const auto grammar =
        schema(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{},"multipleOf":{}}})",
                           r.low, r.high, r.multiple));
    for (int i = -1600; i <= 1600; ++i)
      ASSERT_EQ(accepts(grammar, std::to_string(i)),
                i >= r.low && i <= r.high && i % r.multiple == 0)
          << i << " in " << r.low << ".." << r.high << " by " << r.multiple;
    for (const char* text : {"", "-", "-0", "00", "01", "+1", "1.0", "007", "1e1", " 1"})
      ASSERT_FALSE(accepts(grammar, text)) << text;
  }
}

TEST_F(NumberRange, OpenEndsAndLargeBounds) {
  const auto from_three = schema(R"({"type":"integer","minimum":3})");
  for (const char* text : {"3", "10", "999999999999999999"}) EXPECT_TRUE(accepts(from_three, text));
  for (const char* text : {"2", "01", "-3", "1000000000000000000"})
    EXPECT_FALSE(accepts(from_three, text));
  const auto to = schema(R"({"type":"integer","exclusiveMaximum":20000000000})");
  EXPECT_TRUE(accepts(to, "19999999999"));
  EXPECT_FALSE(accepts(to, "20000000000"));
  const auto exact = schema(R"({"type":"integer","minimum":0,"maximum":9007199254740993})");
  EXPECT_TRUE(accepts(exact, "9007199254740993"));
  EXPECT_FALSE(accepts(exact, "9007199254740994"));
  const auto huge = schema(R"({"type":"integer","minimum":-1e30,"maximum":1e30})");
  EXPECT_TRUE(accepts(huge, "-999999999999999999"));
  const auto between = schema(R"({"type":"integer","exclusiveMinimum":1.5,"maximum":4.9})");
  EXPECT_FALSE(accepts(between, "1"));
  EXPECT_TRUE(accepts(between, "2"));
  EXPECT_TRUE(accepts(between, "4"));
  EXPECT_FALSE(accepts(between, "5"));
}

TEST_F(NumberRange, DecimalsAgreeWithArithmetic) {
  struct Range {
    const char* keywords;
    double low, high;
    bool low_open, high_open;
  };
  const Range ranges[] = {
      {R"("minimum":0,"maximum":1)", 0, 1, false, false},
      {R"("exclusiveMinimum":0,"exclusiveMaximum":1)", 0, 1, true, true},
      {R"("minimum":-2.5,"maximum":13.75)", -2.5, 13.75, false, false},
      {R"("exclusiveMinimum":-20.5,"maximum":-0.125)", -20.5, -0.125, true, false},
      {R"("minimum":0.1,"maximum":0.1)", 0.1, 0.1, false, false},
      {R"("minimum":99.5)", 99.5, INFINITY, false, false},
      {R"("maximum":-99.5)", -INFINITY, -99.5, false, false},
  };
  std::mt19937 random(11);
  for (const Range& r : ranges) {
    const auto grammar = schema(fmt::format(R"({{"type":"number",{}}})", r.keywords));
    for (int i = 0; i < 3000; ++i) {
      const int places = static_cast<int>(random() % 4);
      const double scale = std::pow(10, places);
      const int digits = static_cast<int>(random() % 300000) - 150000;
      const std::string text = fmt::format("{:.{}f}", digits / scale, places);
      if (text.starts_with("-0") && std::stod(text) == 0) continue;  // never written
      const double value = std::stod(text);
      const bool wanted = (r.low_open ? value > r.low : value >= r.low) &&
                          (r.high_open ? value < r.high : value <= r.high);
      ASSERT_EQ(accepts(grammar, text), wanted) << text << " with " << r.keywords;
    }
  }
}

TEST_F(NumberRange, EndlessDigitsEnd) {
  const auto unit = schema(R"({"type":"number","minimum":0,"maximum":1})");
  std::string text = "0.1";
  while (begins(tiny_, unit, text + "0") && text.size() < 100) text += "0";
  EXPECT_LT(text.size(), 20u);
  EXPECT_TRUE(accepts(unit, text));
  const auto any = schema(R"({"type":"number"})");
  text = "1";
  while (begins(tiny_, any, text + "1") && text.size() < 100) text += "1";
  EXPECT_EQ(text.size(), 18u);
  EXPECT_TRUE(accepts(any, "-0.5e-12"));
  EXPECT_FALSE(accepts(any, "1e100"));
  EXPECT_FALSE(accepts(any, "1."));
  EXPECT_FALSE(accepts(any, ".5"));
}

TEST_F(NumberRange, RefusesWhatNoNumberSatisfiesOrItCannotKeep) {
  for (const char* text : {R"({"type":"integer","minimum":4,"maximum":3})",
                           R"({"type":"integer","minimum":1.2,"maximum":1.8})",
                           R"({"type":"number","exclusiveMinimum":2,"maximum":2})",
                           R"({"type":"integer","minimum":1e30})"})
    EXPECT_THAT(tiny_.refusal(json_schema(text)), testing::HasSubstr("within the bounds")) << text;
  EXPECT_THAT(tiny_.refusal(json_schema(R"({"type":"number","multipleOf":0.01})")),
              testing::HasSubstr("multipleOf"));
  EXPECT_THAT(tiny_.refusal(json_schema(R"({"type":"integer","minimum":"3"})")),
              testing::HasSubstr("#/minimum"));
}

TEST(DecimalOf, HasTheFewestDigits) {
  using grammar::decimal_of;
  EXPECT_EQ(decimal_of(0.1).digits, 1);
  EXPECT_EQ(decimal_of(0.1).exponent, -1);
  EXPECT_EQ(decimal_of(-1.25).digits, -125);
  EXPECT_EQ(decimal_of(-1.25).exponent, -2);
  EXPECT_EQ(decimal_of(2e10).digits, 2);
  EXPECT_EQ(decimal_of(2e10).exponent, 10);
  EXPECT_EQ(decimal_of(0).digits, 0);
}

}  // namespace
}  // namespace ingot
