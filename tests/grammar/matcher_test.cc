#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/grammar/matching.h"
#include <map>
#include <random>
#include <regex>
#include <set>

namespace ingot {
namespace {

// What the masks are checked against: the language as a finite set of texts.
class TextSet {
 public:
  explicit TextSet(const std::set<std::string>& texts) : texts_(texts) {
    for (const auto& text : texts)
      for (std::size_t i = 0; i <= text.size(); ++i) beginnings_.insert(text.substr(0, i));
  }
  bool begins(const std::string& text) const { return beginnings_.contains(text); }
  bool whole(const std::string& text) const { return texts_.contains(text); }

 private:
  std::set<std::string> texts_, beginnings_;
};

// Walks at random and compares every mask with the set, token by token.
void check_masks(const TinyCompiler& tiny, const CompiledGrammarPtr& grammar, const TextSet& set,
                 unsigned seed) {
  std::mt19937 random(seed);
  const auto rows = tiny.tokens.tokenizer.vocab_size() + TinyCompiler::kPaddingRows;
  for (int walk = 0; walk < 20; ++walk) {
    GrammarMatcher matcher(grammar);
    std::string text;
    for (int step = 0; step < 60 && !matcher.is_terminated(); ++step) {
      ASSERT_EQ(matcher.is_complete(), set.whole(text)) << text;
      const auto mask = mask_of(matcher);
      std::vector<std::int32_t> allowed;
      for (std::int32_t id = 0; id < static_cast<std::int32_t>(mask.size() * 32); ++id) {
        const std::string bytes = tiny.tokens.tokenizer.token_bytes(id);
        const bool control = id >= tiny.tokens.end_id;
        const bool wanted =
            id == tiny.tokens.end_id ? set.whole(text) : !control && set.begins(text + bytes);
        ASSERT_EQ(is_allowed(mask, id), wanted)
            << "\"" << text << "\" and then token " << id << " \"" << bytes << '"';
        if (wanted) allowed.push_back(id);
        if (id < rows && (id % 7 == 0 || wanted)) {
          ASSERT_EQ(matcher.accept(id), wanted) << "\"" << text << "\" " << id;
          if (wanted) matcher.rollback(1);
        }
      }
      if (allowed.empty()) break;
      const auto drawn = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.accept(drawn));
      if (drawn != tiny.tokens.end_id) text += tiny.tokens.tokenizer.token_bytes(drawn);
    }
  }
}

std::set<std::string> texts_of(const std::string& pattern, std::string_view letters,
                               std::size_t length) {
  const std::regex reference(pattern);
  std::set<std::string> found;
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (std::regex_match(texts[i], reference)) found.insert(texts[i]);
    if (texts[i].size() == length) continue;
    const std::string base = texts[i];
    for (const char letter : letters) texts.push_back(base + letter);
  }
  return found;
}

TEST(Masks, EqualTheSetOfTextsOfAPattern) {
  TinyCompiler tiny(crowded_tokens());
  // Patterns whose texts have at most nine letters.
  for (const char* pattern : {"(?:ab|a-b|b){1,3}", "a{0,4}b?", "[ab]{2,5}", "(?:a|b|-){0,6}",
                              "(?:ab-){1,2}(?:a|b){0,2}", "(?:a(?:b-)?){1,3}"}) {
    const auto texts = texts_of(pattern, "ab-", 9);
    check_masks(tiny, tiny.ready(regex(pattern)), TextSet(texts), 1);
  }
}

TEST(Masks, EqualTheListedChoices) {
  TinyCompiler tiny(crowded_tokens());
  const std::set<std::string> texts{"a", "ab", "ab-", "ba",        "b",   "true",
                                    "é", "éa", "ê",   "a\"   \"b", "-:-", "日本"};
  check_masks(tiny, tiny.ready(choice({texts.begin(), texts.end()})), TextSet(texts), 2);
}

TEST(Masks, EqualTheInstancesOfASchema) {
  TinyCompiler tiny(crowded_tokens());
  std::set<std::string> texts;
  for (const char* a : {"", R"("a":true)", R"("a":false)"})
    for (const char* b :
         {"", R"("b":1)", R"("b":11)", R"("b":[])", R"("b":["a"])", R"("b":["a","a"])"})
      texts.insert("{" + std::string(a) + (*a != 0 && *b != 0 ? "," : "") + b + "}");
  Grammar grammar = json_schema(R"({"type":"object","properties":{"a":{"type":"boolean"},
      "b":{"anyOf":[{"enum":[1,11]},{"type":"array","items":{"const":"a"},"maxItems":2}]}}})");
  grammar.max_whitespace = 0;
  check_masks(tiny, tiny.ready(grammar), TextSet(texts), 3);
}

TEST(Masks, EqualTheWordsOfARecursiveGrammar) {
  TinyCompiler tiny(crowded_tokens());
  std::set<std::string> texts;
  for (int depth = 0; depth <= 12; ++depth)
    texts.insert(std::string(static_cast<std::size_t>(depth), '{') + "ab" +
                 std::string(static_cast<std::size_t>(depth), '}'));
  const auto grammar = tiny.ready(ebnf("root ::= \"{\" root \"}\" | \"ab\""));
  // The set is cut at depth 12, so only short walks are compared.
  std::mt19937 random(4);
  const TextSet set(texts);
  GrammarMatcher matcher(grammar);
  std::string text;
  for (int step = 0; step < 5; ++step) {
    const auto mask = mask_of(matcher);
    for (std::int32_t id = 0; id < tiny.tokens.end_id; ++id)
      ASSERT_EQ(is_allowed(mask, id), set.begins(text + tiny.tokens.tokenizer.token_bytes(id)))
          << text << id;
    ASSERT_TRUE(matcher.accept(tiny.tokens.id("{")));
    text += "{";
  }
}

TEST(Matcher, ControlTokensAndPaddingNeverComeAndTheEndOnlyAtTheEnd) {
  TinyCompiler tiny(crowded_tokens());
  const auto grammar = tiny.ready(regex(".*"));
  GrammarMatcher matcher(grammar);
  for (int step = 0; step < 3; ++step) {
    const auto mask = mask_of(matcher);
    EXPECT_TRUE(is_allowed(mask, tiny.tokens.end_id));
    EXPECT_FALSE(is_allowed(mask, tiny.tokens.open_id));
    for (auto id = tiny.tokens.open_id; id < static_cast<std::int32_t>(mask.size() * 32); ++id)
      EXPECT_FALSE(is_allowed(mask, id));
    EXPECT_FALSE(matcher.accept(tiny.tokens.open_id));
    EXPECT_FALSE(matcher.accept(tiny.tokens.open_id + 5));
    EXPECT_FALSE(matcher.accept(-1));
    EXPECT_FALSE(matcher.accept(1 << 30));
    EXPECT_TRUE(matcher.accept(tiny.tokens.id("a")));
  }
  EXPECT_TRUE(matcher.accept(tiny.tokens.end_id));
  EXPECT_TRUE(matcher.is_terminated());
  EXPECT_TRUE(allowed_ids(matcher).empty());
  EXPECT_FALSE(matcher.accept(tiny.tokens.id("a")));
  matcher.rollback(1);
  EXPECT_FALSE(matcher.is_terminated());
  EXPECT_TRUE(matcher.accept(tiny.tokens.id("a")));
}

TEST(Matcher, RollbackIsAsIfTheTokensHadNeverCome) {
  TinyCompiler tiny(crowded_tokens());
  for (const Grammar& description :
       {Grammar{.kind = GrammarKind::kJsonObject}, regex("(?:a|b|-){0,40}"),
        json_schema(R"({"type":"array","items":{"type":"string","maxLength":5},"minItems":2})"),
        ebnf("root ::= \"{\" root* \"}\" | [ab1]{1,200}")}) {
    const auto grammar = tiny.ready(description);
    std::mt19937 random(6);
    GrammarMatcher matcher(grammar);
    std::vector<std::vector<std::uint32_t>> masks{mask_of(matcher)};
    std::vector<std::int32_t> taken;
    for (int step = 0; step < 200; ++step) {
      if (random() % 3 == 0 && !taken.empty()) {
        const int back = 1 + static_cast<int>(random() % taken.size());
        matcher.rollback(back);
        taken.resize(taken.size() - static_cast<std::size_t>(back));
        masks.resize(taken.size() + 1);
        ASSERT_EQ(mask_of(matcher), masks.back());
        GrammarMatcher fresh(grammar);
        for (const auto id : taken) ASSERT_TRUE(fresh.accept(id));
        ASSERT_EQ(mask_of(fresh), masks.back());
        ASSERT_EQ(fresh.is_complete(), matcher.is_complete());
        ASSERT_EQ(matcher.accepted(), static_cast<int>(taken.size()));
      }
      const auto allowed = allowed_ids(matcher);
      if (allowed.empty()) continue;
      const auto id = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.accept(id));
      taken.push_back(id);
      masks.push_back(mask_of(matcher));
    }
  }
}

// Counts the blanks between tokens of JSON as a reader sees them.
int longest_gap(std::string_view json) {
  int longest = 0, run = 0;
  bool in_string = false, escaped = false;
  for (const char c : json) {
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
      continue;
    }
    run = c == ' ' || c == '\n' || c == '\t' || c == '\r' ? run + 1 : 0;
    longest = std::max(longest, run);
    in_string = c == '"';
  }
  return longest;
}

// As beams fork: the same masks as a matcher that took the same tokens from the start.
// Masks that were given up half-way are made whole the next time, and whoever follows notices
// nothing.
TEST(Matcher, WhatTheTimeDidNotSufficeForLeavesNoTrace) {
  GrammarCompilerOptions options = patient();
  options.warm_seconds = 0;
  TinyCompiler tiny(crowded_tokens(), options), other(crowded_tokens(), options);
  const Grammar json{.kind = GrammarKind::kJsonObject};
  GrammarMatcher matcher(tiny.ready(json)), whole(other.ready(json));
  std::vector<std::uint32_t> mask(matcher.mask_words());
  int given_up = 0;
  for (const char c : std::string("{\"a\": [1, \"b-\"], \"ab\":true}")) {
    for (double seconds = 0;; seconds += 1e-6) {
      grammar::MaskBudget budget{.seconds = seconds};
      if (matcher.fill_mask(mask, budget).has_value()) break;
      ++given_up;
      EXPECT_LT(budget.seconds, seconds);
    }
    EXPECT_EQ(mask, mask_of(whole));
    const std::int32_t id = tiny.tokens.id({&c, 1});
    ASSERT_TRUE(is_allowed(mask, id)) << c;
    ASSERT_TRUE(matcher.accept(id) && whole.accept(id));
  }
  EXPECT_GT(given_up, 10);
  bool asked = false;
  grammar::MaskBudget stopped{.seconds = 1e9, .stop = [&] { return asked = true; }};
  GrammarMatcher fresh(other.ready(regex("[a-z]+[0-9]*")));
  EXPECT_FALSE(fresh.fill_mask(mask, stopped).has_value());
  EXPECT_TRUE(asked);
}

TEST(Matcher, ACopyGoesItsOwnWay) {
  TinyCompiler tiny(crowded_tokens());
  const auto grammar = tiny.ready(regex("(ab|cd|ef){2,4}!"));
  const auto after = [&](std::string_view text) {
    GrammarMatcher matcher(grammar);
    for (const char byte : text)
      EXPECT_TRUE(matcher.accept(tiny.tokens.id(std::string(1, byte)))) << text;
    return matcher;
  };
  GrammarMatcher one = after("abc");
  GrammarMatcher other(one);
  EXPECT_EQ(mask_of(other), mask_of(one));
  ASSERT_TRUE(one.accept(tiny.tokens.id("d")));
  ASSERT_TRUE(one.accept(tiny.tokens.id("!")));
  EXPECT_TRUE(one.is_complete());
  EXPECT_FALSE(other.is_complete());
  GrammarMatcher fresh = after("abc");
  EXPECT_EQ(mask_of(other), mask_of(fresh));
  other.rollback(2);
  fresh = after("a");
  EXPECT_EQ(mask_of(other), mask_of(fresh));
  for (const char* token : {"b", "e", "f"}) ASSERT_TRUE(other.accept(tiny.tokens.id(token)));
  fresh = after("abef");
  EXPECT_EQ(mask_of(other), mask_of(fresh));
  EXPECT_EQ(other.accepted(), 4);
}

TEST(Whitespace, IsBoundedAndMaskAndAcceptAgree) {
  TinyCompiler tiny(crowded_tokens());
  for (const int limit : {0, 1, 3, 16}) {
    Grammar description = json_schema(R"({"type":"object","properties":{"a":{"type":"string"},
        "b":{"type":"array","items":{"type":"integer"},"minItems":1}},"required":["a","b"]})");
    description.max_whitespace = limit;
    const auto grammar = tiny.ready(description);
    std::mt19937 random(8);
    int reached = 0;
    for (int walk = 0; walk < 20; ++walk) {
      GrammarMatcher matcher(grammar);
      std::string text;
      for (int step = 0; step < 80 && !matcher.is_terminated(); ++step) {
        const auto mask = mask_of(matcher);
        std::vector<std::int32_t> allowed, blank;
        for (std::int32_t id = 0; id <= tiny.tokens.end_id; ++id) {
          const bool taken = matcher.accept(id);
          if (taken) matcher.rollback(1);
          ASSERT_EQ(taken, is_allowed(mask, id)) << text << " " << id;
          if (!taken) continue;
          allowed.push_back(id);
          const std::string bytes = tiny.tokens.tokenizer.token_bytes(id);
          if (bytes.find_first_not_of(" \n\t\r") == std::string::npos && id != tiny.tokens.end_id)
            blank.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << text;
        // As a model with a strong bias towards blanks would.
        const auto& from = !blank.empty() && random() % 8 != 0 ? blank : allowed;
        const auto id = from[random() % from.size()];
        ASSERT_TRUE(matcher.accept(id));
        if (id != tiny.tokens.end_id) text += tiny.tokens.tokenizer.token_bytes(id);
        ASSERT_LE(longest_gap(text), limit) << text;
        reached = std::max(reached, longest_gap(text));
      }
    }
    EXPECT_EQ(reached, limit);
  }
}

TEST(Whitespace, AModelThatOnlyWantsBlanksCompletesTheObject) {
  TinyCompiler tiny({"\n\n", "        "});
  for (const char* want : {"\n", "        ", "\n\n", " "}) {
    const auto grammar = tiny.ready(json_schema(
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"}},"required":["a","b"]})"));
    GrammarMatcher matcher(grammar);
    std::string text;
    int tokens = 0;
    while (!matcher.is_terminated() && tokens < 400) {
      const auto mask = mask_of(matcher);
      auto id = tiny.tokens.id(want);
      if (!is_allowed(mask, id)) id = allowed_ids(matcher).back();
      ASSERT_TRUE(matcher.accept(id));
      if (id != tiny.tokens.end_id) text += tiny.tokens.tokenizer.token_bytes(id);
      ++tokens;
    }
    EXPECT_TRUE(matcher.is_terminated()) << text;
  }
}

TEST(Matcher, JumpForwardIsForced) {
  TinyCompiler tiny(crowded_tokens());
  Grammar description =
      json_schema(R"({"type":"object","properties":{"abc":{"const":"xyz"}},"required":["abc"]})");
  description.max_whitespace = 0;
  const auto grammar = tiny.ready(description);
  GrammarMatcher matcher(grammar);
  EXPECT_EQ(matcher.jump_forward(), R"({"abc":"xyz"})");
  for (const char byte : std::string(R"({"ab)"))
    ASSERT_TRUE(matcher.accept(tiny.tokens.id(std::string(1, byte))));
  EXPECT_EQ(matcher.jump_forward(), R"(c":"xyz"})");
}

// Byte-fallback and byte-level vocabularies: the bytes of tokens are what is matched.
TEST(Matcher, VocabulariesOfBothKindsWriteTheSameTexts) {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>"};
  vocab.token_types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    vocab.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    vocab.token_types.push_back(6);
  }
  for (const char* text : {"▁a", "a", "▁", "\"", "▁\"", "é"}) {
    vocab.tokens.push_back(text);
    vocab.token_types.push_back(1);
  }
  vocab.scores.assign(vocab.tokens.size(), 0);
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  vocab.unk_id = 0;
  const Tokenizer tokenizer = tokenizer_from_gguf(vocab);
  GrammarCompiler compiler(tokenizer);
  const auto grammar = compiler.compile(regex("\" aé\"")).value_or_throw();
  const auto allowed = [&](GrammarMatcher& matcher) {
    std::vector<std::string> texts;
    for (const auto id : allowed_ids(matcher)) texts.push_back(tokenizer.token_text(id));
    return texts;
  };
  GrammarMatcher matcher(grammar);
  EXPECT_THAT(allowed(matcher), testing::UnorderedElementsAre("<0x22>", "\""));
  ASSERT_TRUE(matcher.accept(*tokenizer.token_id("\"")));
  EXPECT_THAT(allowed(matcher), testing::UnorderedElementsAre("<0x20>", "▁", "▁a"));
  ASSERT_TRUE(matcher.accept(*tokenizer.token_id("▁a")));
  EXPECT_THAT(allowed(matcher), testing::UnorderedElementsAre("<0xC3>", "é"));
  ASSERT_TRUE(matcher.accept(*tokenizer.token_id("<0xC3>")));
  EXPECT_THAT(allowed(matcher), testing::UnorderedElementsAre("<0xA9>"));
  ASSERT_TRUE(matcher.accept(*tokenizer.token_id("<0xA9>")));
  ASSERT_TRUE(matcher.accept(*tokenizer.token_id("\"")));
  EXPECT_THAT(allowed(matcher), testing::UnorderedElementsAre("</s>"));
}

}  // namespace
}  // namespace ingot
