#include "grammar/grammar.h"

#include "base/error.h"
#include "base/json.h"
#include "grammar/ebnf_parser.h"
#include "grammar/json_text.h"
#include "grammar/regex_parser.h"
#include "grammar/schema_lowering.h"
#include "text/utf8.h"

#include <nlohmann/json.hpp>

namespace ingot {

const char* to_string(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonObject:
      return "json_object";
    case GrammarKind::kJsonSchema:
      return "json_schema";
    case GrammarKind::kRegex:
      return "regex";
    case GrammarKind::kEbnf:
      return "grammar";
    case GrammarKind::kChoice:
      return "choice";
  }
  return "unknown";
}

std::string Grammar::key() const {
  std::string key = fmt::format("{}:{}:{}:{}", to_string(kind), is_json() ? max_whitespace : 0,
                                text.size(), text);
  for (const std::string& choice : choices) key += fmt::format(":{}:{}", choice.size(), choice);
  return key;
}

namespace grammar {

namespace {

constexpr int kMaxWhitespace = 1000;

RootedRules lower_schema(const Grammar& grammar, RuleSet rules) {
  OrderedJson schema;
  try {
    schema = parse_ordered_json(
        grammar.text, "the schema",
        {.max_bytes = rules.limits().max_text_bytes, .max_depth = rules.limits().max_depth});
  } catch (const Error& e) {
    fail(ErrorCode::kRequest, "[guided.json_schema] {}", e.message());
  }
  JsonText text(rules, grammar.max_whitespace == 0);
  const int root = SchemaLowering(rules, text, schema).lower_root();
  return {std::move(rules), root};
}

RootedRules lower_object(const Grammar& grammar, RuleSet rules) {
  const int root = rules.new_rule();
  rules.define(root, JsonText(rules, grammar.max_whitespace == 0).any_object());
  return {std::move(rules), root};
}

RootedRules lower_regex(const Grammar& grammar, RuleSet rules) {
  RegexUse use{.where = "guided.regex", .search = false, .write_char = {}};
  use.write_char = [](RuleSet& into, const CharSet& set) { return into.chars(set); };
  const int root = rules.new_rule();
  rules.define(root, parse_regex(rules, grammar.text, use));
  return {std::move(rules), root};
}

RootedRules lower_choice(const Grammar& grammar, RuleSet rules) {
  if (grammar.choices.empty() || grammar.choices.size() > rules.limits().max_choices)
    fail(ErrorCode::kRequest, "[guided.choice] {} choices, wanted 1 to {}", grammar.choices.size(),
         rules.limits().max_choices);
  for (const std::string& choice : grammar.choices) {
    if (choice.empty()) fail(ErrorCode::kRequest, "[guided.choice] a choice is empty");
    if (!is_utf8(choice)) fail(ErrorCode::kRequest, "[guided.choice] a choice is not UTF-8");
  }
  const int root = rules.new_rule();
  rules.define(root, rules.any_of(grammar.choices));
  return {std::move(rules), root};
}

}  // namespace

RootedRules lower(const Grammar& grammar, const GrammarLimits& limits, const Deadline& deadline) {
  std::size_t bytes = grammar.text.size();
  for (const std::string& choice : grammar.choices) bytes += choice.size();
  if (bytes > limits.max_text_bytes)
    fail(ErrorCode::kRequest, "[guided.{}] {} bytes, at most {} are read", to_string(grammar.kind),
         bytes, limits.max_text_bytes);
  if (grammar.max_whitespace < 0 || grammar.max_whitespace > kMaxWhitespace)
    fail(ErrorCode::kRequest, "[guided.max_whitespace] {}, wanted 0 to {}", grammar.max_whitespace,
         kMaxWhitespace);
  RuleSet rules(limits, deadline);
  switch (grammar.kind) {
    case GrammarKind::kJsonObject:
      return lower_object(grammar, std::move(rules));
    case GrammarKind::kJsonSchema:
      return lower_schema(grammar, std::move(rules));
    case GrammarKind::kRegex:
      return lower_regex(grammar, std::move(rules));
    case GrammarKind::kEbnf:
      return parse_ebnf(grammar.text, limits, deadline);
    case GrammarKind::kChoice:
      return lower_choice(grammar, std::move(rules));
  }
  fail(ErrorCode::kRequest, "[guided.kind] unknown kind");
}

}  // namespace grammar
}  // namespace ingot
