#pragma once

#include "grammar/rule_set.h"

#include <string>

namespace ingot::grammar {

// The grammar in xgrammar's EBNF, from rule `root` on: flat rules (choices of sequences of
// literals, classes and references), counted repetitions written out as chains that end in a tail
// call, and nothing that cannot be completed, so every beginning of a text has an end. Throws
// Error{kRequest}, naming `where`, when no text matches at all or the limits are passed.
std::string print_ebnf(const RootedRules& grammar, std::string_view where);

}  // namespace ingot::grammar
