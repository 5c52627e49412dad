#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/grammar/matching.h"

namespace ingot {
namespace {

using testing::HasSubstr;

// Whether the text is a sequence of balanced brackets around letters "a".
bool balanced(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0) return false;
  }
  return depth == 0;
}

void for_texts(std::string_view letters, std::size_t length,
               const std::function<void(const std::string&)>& call) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    call(texts[i]);
    if (texts[i].size() == length) continue;
    const std::string base = texts[i];
    for (const char letter : letters) texts.push_back(base + letter);
  }
}

TEST(Ebnf, RecursionOfEveryKindMatchesTheSameTexts) {
  TinyCompiler tiny;
  for (const char* text : {
           "root ::= part*\npart ::= \"a\" | \"(\" root \")\"\n",
           "root ::= | root part   # left recursion\npart ::= \"a\" | \"(\" root \")\"",
           "root ::= \"\" | part root\npart ::= [a] | \"(\" root \")\"",
           "root ::= both\nboth ::= \"\" | \"a\" | \"(\" both \")\" | both both  # ambiguous",
           "root ::= (\"a\" | ( \"(\" root \")\" ) )*",
           "root ::= x y\nx ::= \"\" | y \"a\" | \"(\" root \")\" x  # hidden left recursion\n"
           "y ::= root | \"\"",
       }) {
    const auto grammar = tiny.ready(ebnf(text));
    const bool hidden = std::string_view(text).find("hidden") != std::string_view::npos;
    for_texts("a()", 6, [&](const std::string& candidate) {
      if (hidden && !balanced(candidate)) {
        ASSERT_FALSE(accepts(tiny, grammar, candidate)) << text << candidate;
      } else if (!hidden) {
        ASSERT_EQ(accepts(tiny, grammar, candidate), balanced(candidate)) << text << candidate;
      }
    });
  }
}

TEST(Ebnf, SyntaxOfGbnf) {
  TinyCompiler tiny;
  const auto grammar = tiny.ready(ebnf(R"(
# a comment
root ::= greeting (", " name){1,2} end?   # another
  | "bye"
greeting ::=
  "h" [ae] "llo" | "\x48i" | "Gr\u00fc\u00dfe"
name ::= [^,. !\n]+
end ::= "!" | . "\U0001F600"
)"));
  for (const char* text : {"hello, Bob", "hallo, Bob, Eve!", "Hi, x", "Grüße, Jörg?😀", "bye"})
    EXPECT_TRUE(accepts(tiny, grammar, text)) << text;
  for (const char* text : {"hello", "hillo, Bob", "hello, a, b, c", "bye!", "hello, B b"})
    EXPECT_FALSE(accepts(tiny, grammar, text)) << text;
}

TEST(Ebnf, NamesRuleAndLineOfAMistake) {
  TinyCompiler tiny;
  const std::pair<const char*, const char*> cases[] = {
      {"root ::= \"a\"\n  | other", "line 2: rule \"other\" is not defined"},
      {"start ::= \"a\"", "no rule \"root\""},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: rule \"root\" is defined twice"},
      {"root ::= \"a", "without its closing quote"},
      {"root ::= (\"a\"", "'(' without ')'"},
      {"root ::= \"a\")", "unexpected \")\""},
      {"root ::= [a", "'[' without ']'"},
      {"root ::= []", "an empty class"},
      {"root ::= \"a\"{2,1}", "reversed"},
      {"root ::= \"a\"{99999}", "more than 2000"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root = \"a\"", "wanted a rule"},
      {"root ::= \"a\" (= \"b\")", "lookahead"},
      {"root ::= Token(1)", "unexpected \"1\""},
      {"root ::= Token(\"a\")", "rule \"Token\" is not defined"},
      {"root ::= root", "no finite text"},
      {"root ::= a\na ::= b \"x\"\nb ::= a", "no finite text"},
      {"", "no rule \"root\""},
      {"root ::= \"\xff\"", "ill-formed UTF-8"},
      {"root[max_tokens=3] ::= \"a\"", "wanted a rule"},
  };
  for (const auto& [text, what] : cases)
    EXPECT_THAT(tiny.refusal(ebnf(text)),
                testing::AllOf(HasSubstr("[guided.grammar]"), HasSubstr(what)))
        << text;
  EXPECT_THAT(tiny.refusal(ebnf("root ::= " + std::string(50000, '('))),
              HasSubstr("nested deeper"));
}

TEST(Ebnf, PartsThatCannotEndAreNeverEntered) {
  TinyCompiler tiny;
  const auto grammar =
      tiny.ready(ebnf("root ::= \"a\" loop | \"b\" loop? \"c\"\nloop ::= \"x\" loop"));
  EXPECT_FALSE(begins(tiny, grammar, "a"));
  EXPECT_FALSE(begins(tiny, grammar, "bx"));
  EXPECT_TRUE(accepts(tiny, grammar, "bc"));
}

TEST(Ebnf, AmbiguityEndsTheRequestNotTheServer) {
  TinyCompiler tiny;
  const auto grammar = tiny.ready(ebnf("root ::= x x x\nx ::= \"\" | \"a\" x | x \"a\" | x x"));
  GrammarMatcher matcher(grammar);
  std::vector<std::uint32_t> mask(matcher.mask_words());
  // Every token that a mask allows is accepted; then there is a mask that allows none.
  while (matcher.fill_mask(mask)) ASSERT_TRUE(matcher.accept(tiny.tokens.id("a")));
  EXPECT_TRUE(matcher.is_exhausted());
  EXPECT_TRUE(accepts(tiny, grammar, "aaa"));
}

TEST(Ebnf, LongChainsOfRulesAreNoTroubleForTheStack) {
  TinyCompiler tiny;
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) text += fmt::format("r{} ::= \"a\" r{} | r{}\n", i, i + 1, i + 1);
  text += "r5000 ::= \"b\"\n";
  const auto result = tiny.compile(ebnf(text));
  if (result.ok()) {
    EXPECT_TRUE(accepts(tiny, *result, "aab"));
  }
}

}  // namespace
}  // namespace ingot
