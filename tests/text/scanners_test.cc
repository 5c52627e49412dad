#include "text/scanners.h"

#include "base/error.h"
#include "text/pieces.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

// The hand-written scanners give what PCRE2 gives, on random text of all kinds of characters.
namespace ingot {
namespace {

// PCRE2 of Debian 12 knows Unicode 14; characters of later versions are left out.
bool known_to_pcre2(char32_t code) {
  static const Regex assigned("[^\\p{Cn}]");
  static RegexScratch scratch;
  std::string text;
  append_utf8(text, code);
  return assigned.find(text, 0, scratch).has_value() == !is_in(code, kCn);
}

char32_t random_char(std::mt19937& random) {
  static const std::u32string kCommon =
      U" \n\r\t  abcXYZ019'sStTrRvVeElLdDmM.,!?/-\u017f\u00e9\u0301";
  static const std::u32string kOther =
      U"\u00a0\u2003\u3000\u0085\u2028中文日本語ひらカタ한국ЖжΩωאבعر१२٣Ⅷ½²ǅʰªͅ\u0903\u20dd😀🏽\u200d"
      U"\U0001F1E9";
  switch (random() % 8) {
    case 0:
      return kOther[random() % kOther.size()];
    case 1: {
      for (;;) {
        const auto code = static_cast<char32_t>(random() % (random() % 2 ? 0x3000 : 0x20000));
        if (code >= 0xd800 && code < 0xe000) continue;
        if (code == 0x180e) continue;  // white space for PCRE2's set negation of older tables
        if (known_to_pcre2(code)) return code;
      }
    }
    default:
      return kCommon[random() % kCommon.size()];
  }
}

std::string random_text(std::mt19937& random) {
  std::string text;
  const int count = static_cast<int>(random() % 24);
  for (int i = 0; i < count; ++i) {
    const char32_t code = random_char(random);
    const int repeat = random() % 6 == 0 ? static_cast<int>(random() % 5) + 1 : 1;
    for (int j = 0; j < repeat; ++j) append_utf8(text, code);
  }
  return text;
}

class ScannerTest : public testing::TestWithParam<std::string_view> {};

TEST_P(ScannerTest, EqualsPcre2) {
  const Scanner scanner = scanner_of(GetParam());
  ASSERT_NE(scanner, nullptr);
  const Regex regex(GetParam());
  RegexScratch scratch;
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random);
    const char* end = text.data() + text.size();
    std::size_t at = 0;
    while (at < text.size()) {
      const auto match = regex.find(text, at, scratch);
      ASSERT_TRUE(match && match->begin == at) << testing::PrintToString(text) << " at " << at;
      const auto length = static_cast<std::size_t>(scanner(text.data() + at, end) - text.data());
      ASSERT_EQ(length, match->end) << testing::PrintToString(text) << " from " << at;
      at = match->end;
    }
  }
}

std::string pattern_name(const testing::TestParamInfo<std::string_view>& info) {
  constexpr const char* kNames[] = {"gpt2", "llama3", "qwen2", "qwen35", "o200k", "tekken"};
  return kNames[info.index];
}

INSTANTIATE_TEST_SUITE_P(All, ScannerTest,
                         testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern,
                                         kQwen35Pattern, kO200kPattern, kTekkenPattern),
                         pattern_name);

TEST(Regex, TranslatesOniguruma) {
  EXPECT_EQ(to_pcre2("a{2,3}+"), "(?:a{2,3})+");
  EXPECT_EQ(to_pcre2("(ab){2}+"), "(?:(ab){2})+");
  EXPECT_EQ(to_pcre2("[a[bc]]"), "[abc]");
  EXPECT_EQ(to_pcre2("(?mi:.)"), "(?si:.)");
  EXPECT_EQ(to_pcre2("\\u3042"), "\\x{3042}");
  EXPECT_EQ(to_pcre2("\\h"), "[0-9a-fA-F]");
  for (const char* pattern :
       {"[a&&b]", "[a[^b]]", "(", ")", "[", "\\", "*", "\\p{NoSuch}", "(?~a)"})
    EXPECT_THROW(Regex{pattern}, Error) << pattern;
}

}  // namespace
}  // namespace ingot
