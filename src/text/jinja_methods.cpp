#include "text/jinja_interpreter.h"
#include "text/jinja_text_ops.h"

#include <algorithm>

// Methods of Python's str, list and dict.
namespace ingot::jinja {

namespace {

const Text& self_text(const Value& receiver) {
  return *receiver.text();
}

template <bool left, bool right>
Value str_strip(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "strip", {"chars"});
  return strip(self.budget(), self_text(receiver), given.text(0), {.left = left, .right = right});
}

template <LetterCase to>
Value str_case(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "case method", {});
  return change_case(self.budget(), self_text(receiver), to);
}

template <bool from_right>
Value str_split(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "split", {"sep", "maxsplit"});
  const std::vector<TextPtr> parts =
      split(self.budget(), self_text(receiver),
            {.separator = given.text(0), .limit = given.integer(1, -1), .from_right = from_right});
  return self.list(std::vector<Value>(parts.begin(), parts.end()));
}

Value str_splitlines(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "splitlines", {"keepends"});
  const auto parts = split_lines(self.budget(), self_text(receiver), given.flag(0, false));
  return self.list(std::vector<Value>(parts.begin(), parts.end()));
}

template <bool from_right>
Value str_partition(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "partition", {"sep"});
  const TextPtr separator = to_text(self.budget(), given.required(0));
  given.required_text(0);
  const std::vector<TextPtr> parts =
      split(self.budget(), self_text(receiver),
            {.separator = separator.get(), .limit = 1, .from_right = from_right});
  const Value empty = self.string({});
  if (parts.size() == 2) return self.list({parts[0], separator, parts[1]}, ListKind::kTuple);
  if (from_right) return self.list({empty, empty, receiver}, ListKind::kTuple);
  return self.list({receiver, empty, empty}, ListKind::kTuple);
}

Value str_replace(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"});
  return replace(self.budget(), self_text(receiver),
                 {.from = given.required_text(0),
                  .to = given.required_text(1),
                  .count = given.integer(2, -1)});
}

// The part of the text that start and end arguments choose.
Value cut(Interpreter& self, const Value& receiver, const Parameters& given) {
  SliceBounds bounds;
  if (given.get(1) && !given.get(1)->is<None>()) bounds.start = given.integer(1, 0);
  if (given.get(2) && !given.get(2)->is<None>()) bounds.stop = given.integer(2, 0);
  if (!bounds.start && !bounds.stop) return receiver;
  return slice_value(self.budget(), receiver, bounds);
}

template <bool at_end>
Value str_affix(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, at_end ? "endswith" : "startswith", {"prefix", "start", "end"});
  const Value part = cut(self, receiver, given);
  const std::string_view s = self_text(part).bytes;
  const auto matches = [&](const Value& affix) {
    self.budget().work(std::min(s.size(), affix.text() ? affix.text()->bytes.size() : 0));
    if (!affix.text()) fail_template("startswith and endswith want a string or a tuple of strings");
    return at_end ? s.ends_with(affix.text()->bytes) : s.starts_with(affix.text()->bytes);
  };
  const Value& affix = given.required(0);
  if (const auto* u = affix.as<Undefined>()) fail_undefined(*u);
  const List* list = affix.list();
  if (!list || list->kind != ListKind::kTuple) return matches(affix);
  return std::any_of(list->items.begin(), list->items.end(), matches);
}

template <bool at_end>
Value str_remove_affix(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "removeprefix", {"prefix"});
  const Text& affix = given.required_text(0);
  const Text& text = self_text(receiver);
  const std::size_t rest = text.bytes.size() - std::min(text.bytes.size(), affix.bytes.size());
  if (at_end && text.bytes.ends_with(affix.bytes)) return sub_text(self.budget(), text, 0, rest);
  if (!at_end && text.bytes.starts_with(affix.bytes))
    return sub_text(self.budget(), text, affix.bytes.size(), text.bytes.size());
  return receiver;
}

enum class Search { kFind, kFindRight, kIndex, kIndexRight };

template <Search search>
Value str_find(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "find", {"sub", "start", "end"});
  const Text& part = given.required_text(0);
  const Value area = cut(self, receiver, given);
  const std::string_view s = self_text(area).bytes;
  const bool right = search == Search::kFindRight || search == Search::kIndexRight;
  self.budget().work(s.size() * (right ? part.bytes.size() + 1 : 1));
  const std::size_t at = right ? s.rfind(part.bytes) : find_bytes(s, part.bytes);
  if (at == s.npos) {
    if (search == Search::kFind || search == Search::kFindRight) return std::int64_t{-1};
    fail_template("substring not found");
  }
  std::int64_t skipped = 0;
  if (given.get(1) && !given.get(1)->is<None>()) {
    const auto length = static_cast<std::int64_t>(count_code_points(self_text(receiver).bytes));
    skipped = resolve_slice({.start = given.integer(1, 0)}, length).start;
  }
  return skipped + static_cast<std::int64_t>(count_code_points(s.substr(0, at)));
}

Value str_count(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "count", {"sub", "start", "end"});
  const Text& part = given.required_text(0);
  const Value area = cut(self, receiver, given);
  const std::string_view s = self_text(area).bytes;
  self.budget().work(s.size());
  if (part.bytes.empty()) return static_cast<std::int64_t>(count_code_points(s)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = find_bytes(s, part.bytes); at != s.npos;
       at = find_bytes(s, part.bytes, at + part.bytes.size()))
    ++count;
  return count;
}

Value str_join(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "join", {"iterable"});
  const ListPtr items = self.iterate(given.required(0));
  TextBuilder out(self.budget());
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const Text* item = items->items[i].text();
    if (!item)
      fail_template("sequence item {}: expected str instance, {} found", i,
                    type_name(items->items[i]));
    if (i) out.append(self_text(receiver));
    out.append(*item);
  }
  return out.finish();
}

Value str_format(Interpreter& self, const Value& receiver, Arguments& arguments) {
  return format_braces(self, self_text(receiver), arguments);
}

template <char align>
Value str_justify(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "justify", {"width", "fillchar"});
  given.required(0);
  return pad(self.budget(), self_text(receiver), given.integer(0, 0), align,
             given.text(1) ? std::string_view(given.text(1)->bytes) : " ");
}

Value str_zfill(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "zfill", {"width"});
  given.required(0);
  const Text& text = self_text(receiver);
  const bool sign = text.bytes.starts_with('-') || text.bytes.starts_with('+');
  const TextPtr digits = sub_text(self.budget(), text, sign ? 1 : 0, text.bytes.size());
  TextBuilder out(self.budget());
  if (sign) out.append(text, 0, 1);
  out.append(*pad(self.budget(), *digits, given.integer(0, 0) - (sign ? 1 : 0), '>', "0"));
  return out.finish();
}

enum class CharClass { kSpace, kDigit, kAlpha, kAlnum, kAscii };

template <CharClass wanted>
Value str_is(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "is method", {});
  self.budget().work(self_text(receiver).bytes.size());
  const std::string_view s = self_text(receiver).bytes;
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const char32_t c = decode_code_point(s, i, n);
    const bool in_class = wanted == CharClass::kSpace   ? is_space(c)
                          : wanted == CharClass::kDigit ? is_decimal_digit(c)
                          : wanted == CharClass::kAlpha ? is_alphabetic(c)
                          : wanted == CharClass::kAscii ? c < 0x80
                                                        : is_alphabetic(c) || is_decimal_digit(c);
    if (!in_class) return false;
  }
  return wanted == CharClass::kAscii || !s.empty();
}

template <bool upper>
Value str_is_case(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "is method", {});
  self.budget().work(self_text(receiver).bytes.size());
  return has_case(self_text(receiver).bytes, upper);
}

constexpr FilterEntry kStringMethods[] = {
    {"strip", str_strip<true, true>},
    {"lstrip", str_strip<true, false>},
    {"rstrip", str_strip<false, true>},
    {"lower", str_case<LetterCase::kLower>},
    {"casefold", str_case<LetterCase::kLower>},
    {"upper", str_case<LetterCase::kUpper>},
    {"title", str_case<LetterCase::kTitle>},
    {"capitalize", str_case<LetterCase::kCapitalize>},
    {"swapcase", str_case<LetterCase::kSwap>},
    {"split", str_split<false>},
    {"rsplit", str_split<true>},
    {"splitlines", str_splitlines},
    {"partition", str_partition<false>},
    {"rpartition", str_partition<true>},
    {"replace", str_replace},
    {"startswith", str_affix<false>},
    {"endswith", str_affix<true>},
    {"removeprefix", str_remove_affix<false>},
    {"removesuffix", str_remove_affix<true>},
    {"find", str_find<Search::kFind>},
    {"rfind", str_find<Search::kFindRight>},
    {"index", str_find<Search::kIndex>},
    {"rindex", str_find<Search::kIndexRight>},
    {"count", str_count},
    {"join", str_join},
    {"format", str_format},
    {"center", str_justify<'^'>},
    {"ljust", str_justify<'<'>},
    {"rjust", str_justify<'>'>},
    {"zfill", str_zfill},
    {"isspace", str_is<CharClass::kSpace>},
    {"isdigit", str_is<CharClass::kDigit>},
    {"isdecimal", str_is<CharClass::kDigit>},
    {"isnumeric", str_is<CharClass::kDigit>},
    {"isalpha", str_is<CharClass::kAlpha>},
    {"isalnum", str_is<CharClass::kAlnum>},
    {"isascii", str_is<CharClass::kAscii>},
    {"islower", str_is_case<false>},
    {"isupper", str_is_case<true>},
};

}  // namespace

FilterFunction find_string_method(std::string_view name) {
  for (const FilterEntry& entry : kStringMethods)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ingot::jinja
