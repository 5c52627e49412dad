#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/grammar/matching.h"
#include <random>
#include <regex>

namespace ingot {
namespace {

using testing::HasSubstr;

// A random pattern over "a", "b", "-".
std::string random_pattern(std::mt19937& random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int kind = depth == 0 ? pick(4) : pick(9);
  switch (kind) {
    case 0:
      return "a";
    case 1:
      return "b";
    case 2:
      return pick(2) == 0 ? "[ab]" : "[^a]";
    case 3:
      return pick(2) == 0 ? "." : "-";
    case 4:
      return "(" + random_pattern(random, depth - 1) + "|" + random_pattern(random, depth - 1) +
             ")";
    case 5:
      return "(?:" + random_pattern(random, depth - 1) + ")" + "*+?"[pick(3)];
    case 6: {
      const int low = pick(3);
      return fmt::format("(?:{}){{{},{}}}", random_pattern(random, depth - 1), low, low + pick(3));
    }
    default:
      return random_pattern(random, depth - 1) + random_pattern(random, depth - 1);
  }
}

// All texts over the letters up to the length, the empty one included.
std::vector<std::string> texts_over(std::string_view letters, std::size_t length) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == length) continue;
    const std::string base = texts[i];
    for (const char letter : letters) texts.push_back(base + letter);
  }
  return texts;
}

TEST(Regex, RandomPatternsMatchWhatTheStandardLibraryMatches) {
  TinyCompiler tiny;
  std::mt19937 random(3);
  const auto texts = texts_over("ab-", 5);
  for (int round = 0; round < 300; ++round) {
    const std::string pattern = random_pattern(random, 4);
    const std::regex reference(pattern);
    const auto grammar = tiny.ready(regex(pattern));
    for (const std::string& text : texts)
      ASSERT_EQ(accepts(tiny, grammar, text), std::regex_match(text, reference))
          << pattern << " with \"" << text << '"';
  }
}

TEST(Regex, ClassesAndEscapes) {
  TinyCompiler tiny;
  struct Case {
    const char* pattern;
    std::vector<const char*> good, bad;
  };
  const Case cases[] = {
      {R"(\d+)", {"0", "42"}, {"", "a", "٣"}},
      {R"(\w-\W)", {"_-!", "a- "}, {"a-b", "!-!"}},
      {R"([\s\d]{2})", {" 1", "\t\n"}, {"a1", "1"}},
      {R"(\x41\u00e9😀[\b\0])", {"Aé😀\b"}, {"aé😀\b"}},
      {R"([^\n]\.\/\-)", {"x./-", "é./-"}, {"\n./-", "x,/-"}},
      {R"({"a": [0-9]{1,2}})", {R"({"a": 7})", R"({"a": 42})"}, {R"({"a": 123})", R"("a": 7)"}},
      {R"(^(?:yes|no)$)", {"yes", "no"}, {"yesno", ""}},
      {R"((\d{4})-(?:\d\d))", {"2024-01"}, {"24-01"}},
      {"a|b|", {"a", "b", ""}, {"ab"}},
      {"[a-]|[-z]|[]]?", {"a", "-", "z"}, {"b"}},
  };
  for (const Case& c : cases) {
    const auto result = tiny.compile(regex(c.pattern));
    if (std::string_view(c.pattern).find("[]]") != std::string_view::npos) {
      EXPECT_FALSE(result.ok());  // an empty class in ECMAScript, a bracket in Python
      continue;
    }
    ASSERT_TRUE(result.ok()) << c.pattern << ": " << result.error().message();
    for (const char* text : c.good)
      EXPECT_TRUE(accepts(tiny, *result, text)) << c.pattern << " " << text;
    for (const char* text : c.bad)
      EXPECT_FALSE(accepts(tiny, *result, text)) << c.pattern << " " << text;
  }
}

TEST(Regex, NamesWhatItDoesNotSupport) {
  TinyCompiler tiny;
  const std::pair<const char*, const char*> cases[] = {
      {"(", "'(' without ')'"},
      {"a)", "')' without '('"},
      {"[a", "'[' without ']'"},
      {"a{99999999}", "a repetition of more than 2000"},
      {"a{3,2}", "reversed"},
      {"a**", "two quantifiers"},
      {"a*+", "possessive"},
      {"*a", "nothing before it"},
      {"a(?=b)", "a lookahead"},
      {"(?<!b)a", "a lookbehind"},
      {R"((a)\1)", "a back reference"},
      {R"(\ba)", "a word boundary"},
      {R"(\p{L})", "a Unicode property class"},
      {"(?i)a", "flags"},
      {"a^b", "'^' or '$' inside"},
      {"a$b", "'$' before the end"},
      {R"(\q)", "the unknown escape"},
      {R"(\)", "a backslash at the end"},
      {R"([z-a])", "does not ascend"},
      {R"(\uD800)", "a surrogate"},
      {R"(\ud83d\ude00)", "write the character itself at"},
      {R"(\u{1F600})", "write the character itself at"},
      {R"(\cA)", R"(\c, which not every language knows; write \xHH at)"},
      {R"(\Aa)", "write ^ at"},
      {R"(a\Z)", "write $ at"},
      {"(?<n>a)", "a named group"},
      {"(?P<n>a)", "a named group"},
      {R"([\w-.])", "a range from or to a class"},
      {R"([\d-x])", "a range from or to a class"},
      {R"([!-\d])", "a range from or to a class"},
      {"x{,3}",
       R"("{,3}", a repetition to some languages and text to others; write "{0,3}" or "\{,3}")"},
      {"x{,}", R"(write "{0,}")"},
      {"{,3}", R"(write "{0,3}")"},
      {"a{2}{3}", "two quantifiers"},
      {"a*{3}", "two quantifiers"},
      {"a+?{2,}", "two quantifiers"},
      {"a?{,2}", R"(write "{0,2}")"},
      {"{2}", "nothing before it"},
      {"(a|{2,3})", "nothing before it"},
      {"a{2}+", "possessive"},
      {"\xff", "ill-formed UTF-8"},
  };
  for (const auto& [pattern, what] : cases)
    EXPECT_THAT(tiny.refusal(regex(pattern)),
                testing::AllOf(HasSubstr("[guided.regex]"), HasSubstr(what)))
        << pattern;
  EXPECT_THAT(tiny.refusal(regex(std::string(50000, '('))), HasSubstr("nested deeper"));
  EXPECT_THAT(tiny.refusal(regex(std::string(2 << 20, 'a'))), HasSubstr("at most"));
}

// Braces that count nothing are text in Python and in ECMAScript without the flag "u".
TEST(Regex, OtherBracesAreText) {
  TinyCompiler tiny;
  for (const char* pattern : {"{", "}", "]", "{}", "{2", "a{", "a{1", "a{1,", "a{1,2", "a{,",
                              "a{,2", "a{x}", "a{1,x}", "a{-1}", "a{1}{", "{a}"}) {
    const std::string text = std::string_view(pattern) == "a{1}{" ? "a{" : pattern;
    EXPECT_TRUE(accepts(tiny, tiny.ready(regex(pattern)), text)) << pattern;
  }
  EXPECT_TRUE(accepts(tiny, tiny.ready(regex("{{2}}{2,}{*")), "{{}}}"));
}

TEST(Regex, CountedRepetitionsAreExact) {
  TinyCompiler tiny;
  for (const auto& [low, high] :
       {std::pair{0, 3}, {2, 5}, {100, 140}, {129, 129}, {0, 300}, {131, 400}}) {
    for (const char* part : {"a", "[ab]", "(?:a|b)", R"([^"])"}) {
      const auto grammar = tiny.ready(regex(fmt::format("{}{{{},{}}}\"", part, low, high)));
      for (int count = 0; count <= high + 2; count += count > 10 && count < low - 2 ? 7 : 1)
        ASSERT_EQ(accepts(tiny, grammar, std::string(static_cast<std::size_t>(count), 'a') + '"'),
                  count >= low && count <= high)
            << part << " " << low << " " << high << " " << count;
    }
  }
}

TEST(Regex, RepetitionsOfRepetitionsStaySmall) {
  TinyCompiler tiny;
  const auto grammar = tiny.ready(regex("((((a{2000}){2000}){2000}){2000})[bc]"));
  EXPECT_LT(grammar->bytes(), 200'000u);
  EXPECT_TRUE(begins(tiny, grammar, std::string(3000, 'a')));
  EXPECT_FALSE(begins(tiny, grammar, std::string(3000, 'a') + "b"));
  const auto small = tiny.ready(regex("((a{3}){0,2}){2}b"));
  for (std::size_t count = 0; count < 16; ++count)
    EXPECT_EQ(accepts(tiny, small, std::string(count, 'a') + "b"), count % 3 == 0 && count <= 12);
}

TEST(Regex, AmbiguousPatternsStayCheap) {
  TinyCompiler tiny;
  for (const char* pattern : {"(a|aa|aaa|a*)*b", "(?:(?:a?){3}(?:a*)*)*b", "(a|a)*(a|aa)*(a|aaa)*b",
                              "((a*)*|(a|aa)+)+b"}) {
    const auto grammar = tiny.ready(regex(pattern));
    // A cost that grew with the text would end this (see AmbiguityEndsTheRequestNotTheServer).
    EXPECT_TRUE(accepts(tiny, grammar, std::string(1500, 'a') + 'b')) << pattern;
    EXPECT_TRUE(accepts(tiny, grammar, "b")) << pattern;
    EXPECT_FALSE(accepts(tiny, grammar, "aac")) << pattern;
  }
}

TEST(Regex, OpenRepetitionsGoOn) {
  TinyCompiler tiny;
  const auto grammar = tiny.ready(regex("(?:ab|c){3,}"));
  EXPECT_FALSE(accepts(tiny, grammar, "abc"));
  std::string text = "abcab";
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(accepts(tiny, grammar, text));
    text += i % 3 == 0 ? "ab" : "c";
  }
}

}  // namespace
}  // namespace ingot
