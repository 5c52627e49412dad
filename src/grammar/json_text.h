#pragma once

#include "base/json.h"
#include "grammar/rule_set.h"

#include <optional>
#include <string_view>

namespace ingot::grammar {

// Where a value stands: followed by one of ",", "]", "}", ":" (after white space), or by the end.
enum class JsonPlace : std::uint8_t { kInside, kRoot };

// The pieces of JSON text that schemas are made of. Strings are well-formed Unicode (surrogates in
// pairs), numbers have at most 18 digits before the point and 17 after, exponents two digits: no
// endless digits, every number is finite and integers fit in 64 bits.
class JsonText {
 public:
  // `compact`: no white space between tokens; else any run of it, which the matcher bounds.
  JsonText(RuleSet& rules, bool compact) : rules_(rules), compact_(compact) {}

  ExprId gap();
  // One character of the set as it stands in a string: as it is, or escaped in the shortest way.
  ExprId character(const CharSet& set);
  // Characters that stand in strings as they are.
  static const CharSet& plain_characters();

  ExprId string(JsonPlace place);
  // At least `min` characters, escapes allowed.
  ExprId string_from(int min, JsonPlace place);
  // `min` to `max` characters, none of which needs an escape: the matcher then counts them.
  ExprId string_between(int min, int max);
  ExprId quoted(ExprId content);
  // Any key without escapes but the given ones; closing quote included.
  ExprId key_except(const std::vector<std::string>& names);

  ExprId integer();
  ExprId number();
  ExprId boolean();
  ExprId null() { return rules_.text("null"); }
  ExprId any_array();
  ExprId any_object();
  ExprId any_value(JsonPlace place);
  // Exactly this value, compact.
  ExprId literal(const OrderedJson& value);

 private:
  ExprId escape();
  ExprId tail(JsonPlace place);
  ExprId key_after(const std::vector<std::string>& names, std::size_t from);
  ExprId non_negative_integer();

  RuleSet& rules_;
  bool compact_;
  std::optional<int> tails_[2], array_, object_, value_, number_, integer_, key_tail_;
};

}  // namespace ingot::grammar
