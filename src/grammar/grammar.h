#pragma once

#include "grammar/rule_set.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

enum class GrammarKind : std::uint8_t {
  kJsonObject,  // any JSON object
  kJsonSchema,  // `text`: a JSON Schema
  kRegex,       // `text`: a regular expression that the whole answer matches
  kEbnf,        // `text`: a grammar in EBNF (GBNF), from the rule `root`
  kChoice,      // one of `choices`
};

// "json_object", "json_schema", "regex", "grammar", "choice".
const char* to_string(GrammarKind kind);

// What an answer has to look like.
struct Grammar {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  // Longest run of blanks, tabs and line breaks between two tokens of JSON; 0: none at all.
  int max_whitespace = 16;

  bool is_json() const {
    return kind == GrammarKind::kJsonObject || kind == GrammarKind::kJsonSchema;
  }
  // The same for equal descriptions only.
  std::string key() const;
};

namespace grammar {

// The description as rules. Throws Error{kRequest} "[guided.<kind>] what, where" for what is wrong,
// not supported or beyond the limits.
RootedRules lower(const Grammar& grammar, const GrammarLimits& limits, const Deadline& deadline);

}  // namespace grammar
}  // namespace ingot
