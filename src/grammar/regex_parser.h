#pragma once

#include "grammar/rule_set.h"

#include <functional>
#include <string_view>

namespace ingot::grammar {

struct RegexUse {
  std::string_view where;  // begins the messages: "guided.regex"
  // Whole text (guided decoding) or anywhere in it (`pattern` of JSON Schema).
  bool search = false;
  // How one character of the set is written.
  std::function<ExprId(RuleSet&, const CharSet&)> write_char;
  // Which characters of the set a long counted run of it consists of; empty: all. A run without
  // escapes is one that the matcher can count.
  std::function<CharSet(const CharSet&)> run_of{};
};

// A regular expression of the kind that ECMAScript and Python share: literals, ".", classes, \d \w
// \s and their opposites, groups, "|", "*", "+", "?", "{m,n}", "^" and "$" at the ends. Where the
// two differ in what they match, what both match; what one of them does not know or takes for text
// is refused. Of ECMAScript's two modes: characters are whole, as under the flag "u", and a bracket
// that closes nothing is text, as without it. Throws Error{kRequest} that names what is not
// supported and where.
ExprId parse_regex(RuleSet& rules, std::string_view pattern, const RegexUse& use);

// What "\d", "\w", "\s" match under every common engine, and under any of them.
struct ClassEscape {
  CharSet narrow, wide;
};
const ClassEscape& class_escape(char lower_case_letter);

}  // namespace ingot::grammar
