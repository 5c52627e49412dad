#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

// What an answer has to look like (docs/structured_output.md). A description that is wrong, not
// supported or too large is Error{kRequest} "[guided.<kind>] what, where".
enum class GuidedKind : std::uint8_t {
  kNone,
  kJsonObject,  // any JSON object
  kJsonSchema,  // `text`: a JSON Schema; every answer is a valid instance
  kRegex,       // `text`: a regular expression that the whole answer matches
  kGrammar,     // `text`: a grammar in EBNF (GBNF), from the rule `root`
  kChoice,      // one of `choices`
};

struct GuidedDecoding {
  GuidedKind kind = GuidedKind::kNone;
  std::string text;
  std::vector<std::string> choices;
  // Longest run of white space between two tokens of JSON, in characters; 0: none at all.
  std::int32_t max_whitespace = 16;
};

}  // namespace ingot
