#include "grammar/json_text.h"

#include "base/error.h"
#include "text/utf8.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ingot::grammar {

namespace {

constexpr int kIntegerDigits = 18;
constexpr int kFractionDigits = 17;
constexpr int kExponentDigits = 2;

struct ShortEscape {
  char32_t code;
  const char* text;
};
constexpr ShortEscape kShortEscapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"},
                                         {'\f', "\\f"}, {'\n', "\\n"},  {'\r', "\\r"},
                                         {'\t', "\\t"}};

CharSet digits() {
  return CharSet({{'0', '9'}});
}

// Runs `make` once and gives a reference to its rule. The rule exists before its body, so bodies
// may refer to themselves.
template <typename Make>
ExprId once(RuleSet& rules, std::optional<int>& number, Make&& make) {
  if (!number) {
    number = rules.new_rule();
    rules.define(*number, make());
  }
  return rules.rule(*number);
}

}  // namespace

const CharSet& JsonText::plain_characters() {
  static const CharSet set = CharSet({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}).complement();
  return set;
}

ExprId JsonText::gap() {
  if (compact_) return rules_.text("");
  return rules_.repeat(rules_.chars(CharSet({{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}})), 0,
                       kUnbounded);
}

ExprId JsonText::character(const CharSet& set) {
  std::vector<ExprId> choices{rules_.chars(set.intersected(plain_characters()))};
  CharSet shortened;
  for (const ShortEscape& e : kShortEscapes) {
    shortened = shortened.united(CharSet::one(e.code));
    if (set.contains(e.code)) choices.push_back(rules_.text(e.text));
  }
  const CharSet others = set.minus(plain_characters()).minus(shortened);  // all below U+0020
  for (const CharRange& range : others.ranges())
    for (char32_t code = range.first; code <= range.last; ++code)
      choices.push_back(rules_.text(fmt::format("\\u{:04x}", static_cast<unsigned>(code))));
  return rules_.choice(std::move(choices));
}

// What follows a backslash in a string.
ExprId JsonText::escape() {
  const CharSet hex({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  const CharSet d({{'D', 'D'}, {'d', 'd'}});
  const auto h = [&](int count) { return rules_.repeat(rules_.chars(hex), count, count); };
  const ExprId simple = rules_.chars(CharSet({{'"', '"'},
                                              {'\\', '\\'},
                                              {'/', '/'},
                                              {'b', 'b'},
                                              {'f', 'f'},
                                              {'n', 'n'},
                                              {'r', 'r'},
                                              {'t', 't'}}));
  const ExprId before = rules_.chars(CharSet({{'0', '7'}}));
  return rules_.choice(
      {simple, rules_.sequence({rules_.text("u"), rules_.chars(hex.minus(d)), h(3)}),
       rules_.sequence({rules_.text("u"), rules_.chars(d), before, h(2)}),
       rules_.sequence({rules_.text("u"), rules_.chars(d),
                        rules_.chars(CharSet({{'8', '9'}, {'A', 'B'}, {'a', 'b'}})), h(2),
                        rules_.text("\\u"), rules_.chars(d),
                        rules_.chars(CharSet({{'C', 'F'}, {'c', 'f'}})), h(2)})});
}

// The rest of a string and its closing quote.
ExprId JsonText::tail(JsonPlace place) {
  auto& number = tails_[static_cast<std::size_t>(place)];
  if (number) return rules_.rule(*number);
  number = rules_.new_rule();
  const ExprId self = rules_.rule(*number);
  rules_.define(*number, rules_.choice({rules_.text("\""),
                                        rules_.sequence({rules_.chars(plain_characters()), self}),
                                        rules_.sequence({rules_.text("\\"), escape(), self})}));
  if (place == JsonPlace::kInside)
    rules_.promise_follow(
        *number,
        rules_.sequence(
            {gap(), rules_.chars(CharSet({{',', ','}, {'}', '}'}, {']', ']'}, {':', ':'}}))}));
  return self;
}

ExprId JsonText::string(JsonPlace place) {
  return rules_.sequence({rules_.text("\""), tail(place)});
}

ExprId JsonText::string_from(int min, JsonPlace place) {
  const ExprId one = rules_.choice(
      {rules_.chars(plain_characters()), rules_.sequence({rules_.text("\\"), escape()})});
  return rules_.sequence({rules_.text("\""), rules_.repeat(one, min, min), tail(place)});
}

ExprId JsonText::string_between(int min, int max) {
  return quoted(rules_.repeat(rules_.chars(plain_characters()), min, max));
}

ExprId JsonText::quoted(ExprId content) {
  return rules_.sequence({rules_.text("\""), content, rules_.text("\"")});
}

// What may follow the first `from` bytes, shared by all names. `names` is sorted and unique.
ExprId JsonText::key_after(const std::vector<std::string>& names, std::size_t from) {
  const ExprId rest = once(rules_, key_tail_, [&] {
    return rules_.sequence(
        {rules_.repeat(rules_.chars(plain_characters()), 0, kUnbounded), rules_.text("\"")});
  });
  if (names.empty()) return rest;
  std::vector<ExprId> choices;
  std::vector<CharRange> taken;
  std::size_t begin = names.front().size() == from ? 1 : 0;
  if (begin == 0) choices.push_back(rules_.text("\""));
  while (begin < names.size()) {
    const char* at = names[begin].data() + from;
    const Utf8Char c = decode_utf8(at, names[begin].data() + names[begin].size());
    const auto size = static_cast<std::size_t>(c.size);
    std::size_t end = begin + 1;
    while (end < names.size() && names[end].compare(from, size, names[begin], from, size) == 0)
      ++end;
    taken.push_back({c.code, c.code});
    const std::vector<std::string> group(names.begin() + static_cast<std::ptrdiff_t>(begin),
                                         names.begin() + static_cast<std::ptrdiff_t>(end));
    choices.push_back(
        rules_.sequence({rules_.chars(CharSet::one(c.code)), key_after(group, from + size)}));
    begin = end;
  }
  choices.push_back(
      rules_.sequence({rules_.chars(plain_characters().minus(CharSet(std::move(taken)))), rest}));
  return rules_.choice(std::move(choices));
}

ExprId JsonText::key_except(const std::vector<std::string>& names) {
  std::vector<std::string> plain;
  for (const std::string& name : names) {
    // A name that cannot be written without escapes is no key without escapes.
    const bool needs_escape = std::ranges::any_of(
        name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; });
    if (!needs_escape) plain.push_back(name);
  }
  std::ranges::sort(plain);
  plain.erase(std::unique(plain.begin(), plain.end()), plain.end());
  return rules_.sequence({rules_.text("\""), key_after(plain, 0)});
}

ExprId JsonText::non_negative_integer() {
  return rules_.choice({rules_.text("0"), rules_.sequence({rules_.chars(CharSet({{'1', '9'}})),
                                                           rules_.repeat(rules_.chars(digits()), 0,
                                                                         kIntegerDigits - 1)})});
}

ExprId JsonText::integer() {
  return once(rules_, integer_, [&] {
    return rules_.choice(
        {rules_.text("0"),
         rules_.sequence({rules_.optional(rules_.text("-")), rules_.chars(CharSet({{'1', '9'}})),
                          rules_.repeat(rules_.chars(digits()), 0, kIntegerDigits - 1)})});
  });
}

ExprId JsonText::number() {
  return once(rules_, number_, [&] {
    const ExprId fraction = rules_.sequence(
        {rules_.text("."), rules_.repeat(rules_.chars(digits()), 1, kFractionDigits)});
    const ExprId exponent =
        rules_.sequence({rules_.chars(CharSet({{'E', 'E'}, {'e', 'e'}})),
                         rules_.optional(rules_.chars(CharSet({{'+', '+'}, {'-', '-'}}))),
                         rules_.repeat(rules_.chars(digits()), 1, kExponentDigits)});
    return rules_.sequence({rules_.optional(rules_.text("-")), non_negative_integer(),
                            rules_.optional(fraction), rules_.optional(exponent)});
  });
}

ExprId JsonText::boolean() {
  return rules_.choice({rules_.text("true"), rules_.text("false")});
}

ExprId JsonText::any_array() {
  return once(rules_, array_, [&] {
    const int rest = rules_.new_rule();
    const ExprId item = rules_.sequence({any_value(JsonPlace::kInside), rules_.rule(rest)});
    rules_.define(rest, rules_.choice({rules_.sequence({gap(), rules_.text("]")}),
                                       rules_.sequence({gap(), rules_.text(","), gap(), item})}));
    return rules_.choice({rules_.sequence({rules_.text("["), gap(), rules_.text("]")}),
                          rules_.sequence({rules_.text("["), gap(), item})});
  });
}

ExprId JsonText::any_object() {
  return once(rules_, object_, [&] {
    const int rest = rules_.new_rule();
    const ExprId member =
        rules_.sequence({string(JsonPlace::kInside), gap(), rules_.text(":"), gap(),
                         any_value(JsonPlace::kInside), rules_.rule(rest)});
    rules_.define(rest, rules_.choice({rules_.sequence({gap(), rules_.text("}")}),
                                       rules_.sequence({gap(), rules_.text(","), gap(), member})}));
    return rules_.choice({rules_.sequence({rules_.text("{"), gap(), rules_.text("}")}),
                          rules_.sequence({rules_.text("{"), gap(), member})});
  });
}

ExprId JsonText::any_value(JsonPlace place) {
  const auto make = [&] {
    return rules_.choice({string(place), number(), any_object(), any_array(), boolean(), null()});
  };
  if (place == JsonPlace::kRoot) return make();
  return once(rules_, value_, make);
}

ExprId JsonText::literal(const OrderedJson& value) {
  return rules_.text(dump_json(value));
}

}  // namespace ingot::grammar
