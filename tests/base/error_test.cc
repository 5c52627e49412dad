#include "base/error.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace ingot {
namespace {

using testing::HasSubstr;

constexpr ErrorCode kAll[] = {ErrorCode::kRequest,    ErrorCode::kUsage,      ErrorCode::kBadInput,
                              ErrorCode::kDoesNotFit, ErrorCode::kDevice,     ErrorCode::kSystem,
                              ErrorCode::kBug,        ErrorCode::kInterrupted};

TEST(Error, TableMatchesTheCommandLinesExitCodes) {
  constexpr int kExit[] = {1, 2, 3, 4, 5, 6, 70, 130};
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < std::size(kAll); ++i) {
    EXPECT_EQ(describe(kAll[i]).exit_code, kExit[i]);
    EXPECT_GE(describe(kAll[i]).http_status, 400);
    names.insert(describe(kAll[i]).name);
  }
  EXPECT_EQ(names.size(), std::size(kAll));
}

TEST(Error, FailFormatsItsMessage) {
  try {
    fail(ErrorCode::kDevice, "[cuda.x] got {}, wanted {}", 1, "two");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kDevice);
    EXPECT_STREQ(e.what(), "[cuda.x] got 1, wanted two");
  }
}

TEST(Error, CheckNamesPlaceAndMessage) {
  EXPECT_NO_THROW(check(true, "fine"));
  try {
    check(false, "pages add up");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kBug);
    EXPECT_THAT(e.message(), HasSubstr("pages add up"));
    EXPECT_THAT(e.message(), HasSubstr("error_test.cc"));
  }
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::string> good(std::string("text"));
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4u);
  EXPECT_THROW(good.error(), Error);
  EXPECT_EQ(std::move(good).value_or_throw(), "text");

  Result<std::string> bad(Error(ErrorCode::kRequest, "too long"));
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().message(), "too long");
  try {
    (void)bad.value();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kBug) << "reading a failed Result is a bug";
  }
  try {
    (void)std::move(bad).value_or_throw();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kRequest);
  }
}

TEST(Hash, MatchesThePublishedValuesOfXxh3) {
  EXPECT_EQ(hash64(std::string_view()), 0x2d06800538d394c2u);
  EXPECT_EQ(hash128_hex(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash64(std::string_view("a")), hash64(std::string_view("b")));
}

void expect_refused(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "config.json", limits);
    ADD_FAILURE() << text.substr(0, 40);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kBadInput);
    EXPECT_THAT(e.message(), HasSubstr("config.json"));
    EXPECT_THAT(e.message(), testing::Not(HasSubstr("json.exception")));
  }
}

TEST(Json, LimitsDepthAndSize) {
  EXPECT_EQ(parse_json(R"({"a":[1,{"b":2}]})", "x")["a"][1]["b"], 2);
  const std::string deep(200'000, '[');
  expect_refused(deep);
  expect_refused(std::string(1'000'000, '{'));
  EXPECT_NO_THROW(parse_json("[[[1]]]", "x", {.max_depth = 3}));
  expect_refused("[[[[1]]]]", {.max_depth = 3});
  // Brackets inside a text are no nesting, an escaped quote does not end it.
  EXPECT_NO_THROW(parse_json(R"(["[[[[\"[[[["])", "x", {.max_depth = 1}));
  expect_refused("[1,2,3]", {.max_bytes = 6});
  for (const char* bad : {"", "{", "[1,]", "{\"a\":}", "nul", "\"\xff\"", "1 2", "[1e999]"})
    expect_refused(bad);
}

TEST(Json, KeepsOrderWhenAskedAndRepairsBytes) {
  EXPECT_EQ(dump_json(parse_json(R"({"b":1,"a":2})", "x")), R"({"a":2,"b":1})");
  EXPECT_EQ(dump_json(parse_ordered_json(R"({"b":1,"a":2})", "x")), R"({"b":1,"a":2})");
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace ingot
