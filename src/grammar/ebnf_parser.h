#pragma once

#include "grammar/rule_set.h"

#include <string_view>

namespace ingot::grammar {

// A grammar as llama.cpp (GBNF) and xgrammar write it: lines `name ::= alternatives`, "#" comments,
// "literals" and [classes] with escapes, ".", groups, "|", "*", "+", "?", "{m,n}"; it starts from
// `root`. Rules may refer to each other in any way, left recursion included. Throws
// Error{kRequest} that names line and rule.
RootedRules parse_ebnf(std::string_view text, const GrammarLimits& limits,
                       const Deadline& deadline);

}  // namespace ingot::grammar
