#include "text/jinja_interpreter.h"
#include "text/jinja_text_ops.h"

#include <charconv>
#include <cmath>

// Filters on strings and numbers. Semantics: jinja2 3.1 filters.py, without autoescape.
namespace ingot::jinja {

namespace {

void no_arguments(Arguments& arguments, std::string_view name) {
  Parameters(arguments, name, {});
}

TextPtr text_of(Interpreter& self, const Value& value) {
  return to_text(self.budget(), value);
}

template <LetterCase to>
Value filter_case(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "case filter");
  return change_case(self.budget(), *text_of(self, input), to);
}

// jinja2's own words: split at runs of "-", white space and opening brackets.
Value filter_title(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "title");
  const TextPtr text = text_of(self, input);
  const std::string_view s = text->bytes;
  TextBuilder out(self.budget());
  const auto is_break = [&](std::size_t i, std::size_t n) {
    return std::string_view("-({[<").find(s[i]) != std::string_view::npos ||
           is_space(decode_code_point(s, i, n));
  };
  for (std::size_t i = 0; i < s.size();) {
    std::size_t end = i;
    const bool gap = is_break(i, code_point_bytes(s, i));
    while (end < s.size() && is_break(end, code_point_bytes(s, end)) == gap)
      end += code_point_bytes(s, end);
    out.append(*change_case(self.budget(), *sub_text(self.budget(), *text, i, end),
                            LetterCase::kCapitalize));
    i = end;
  }
  return out.finish();
}

Value filter_trim(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  return strip(self.budget(), *text_of(self, input), given.text(0));
}

Value filter_replace(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"});
  const TextPtr from = text_of(self, given.required(0));
  const TextPtr to = text_of(self, given.required(1));
  const bool all = !given.get(2) || given.get(2)->is<None>();
  return replace(self.budget(), *text_of(self, input),
                 {.from = *from, .to = *to, .count = all ? -1 : given.integer(2, -1)});
}

Value filter_indent(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "indent", {"width", "first", "blank"});
  if (!input.text()) fail_template("indent wants a string, got {}", type_name(input));
  TextPtr indention;
  if (given.get(0) && given.get(0)->text()) {
    indention = *given.get(0)->as<TextPtr>();
  } else {
    const TextPtr empty = make_text(self.budget(), {});
    indention = pad(self.budget(), *empty, given.integer(0, 4), '<');
  }
  return indent(
      self.budget(), *input.text(),
      {.indention = indention, .first = given.flag(1, false), .blank = given.flag(2, false)});
}

Value filter_string(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "string");
  return text_of(self, input);
}

Value filter_safe(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "safe");
  TextBuilder out(self.budget());
  out.append(*text_of(self, input));
  return out.finish(true);
}

Value filter_escape(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "escape");
  const TextPtr text = text_of(self, input);
  return text->html_safe ? text : escape_html(self.budget(), *text);
}

Value filter_force_escape(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "forceescape");
  return escape_html(self.budget(), *text_of(self, input));
}

Value filter_center(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "center", {"width"});
  return pad(self.budget(), *text_of(self, input), given.integer(0, 80), '^');
}

Value filter_format(Interpreter& self, const Value& input, Arguments& arguments) {
  if (!arguments.named.empty()) {
    if (!arguments.positional.empty())
      fail_template("format: positional and named arguments together");
    auto dict = std::make_shared<Dict>(self.budget());
    for (const auto& [name, value] : arguments.named) dict->set(self.string(name), value);
    return format_percent(self.budget(), *text_of(self, input), DictPtr(dict));
  }
  return format_percent(self.budget(), *text_of(self, input),
                        self.list(std::move(arguments.positional), ListKind::kTuple));
}

Value filter_word_count(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "wordcount");
  const TextPtr text = text_of(self, input);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t i = 0, n = 0; i < text->bytes.size(); i += n) {
    n = code_point_bytes(text->bytes, i);
    const char32_t c = decode_code_point(text->bytes, i, n);
    const bool word = c == '_' || is_alphabetic(c) || is_decimal_digit(c);
    if (word && !inside) ++count;
    inside = word;
  }
  return count;
}

Value filter_truncate(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "truncate", {"length", "killwords", "end", "leeway"});
  if (!input.text()) fail_template("truncate wants a string, got {}", type_name(input));
  const TextPtr text = text_of(self, input);
  const std::int64_t length = given.integer(0, 255);
  const TextPtr end =
      given.text(2) ? *given.get(2)->as<TextPtr>() : make_text(self.budget(), "...");
  const auto end_length = static_cast<std::int64_t>(count_code_points(end->bytes));
  const std::int64_t leeway = given.get(3) && given.get(3)->is<None>() ? 5 : given.integer(3, 5);
  if (length < end_length || leeway < 0 || length > (std::int64_t{1} << 40) ||
      leeway > (std::int64_t{1} << 40))
    fail_template("truncate: length or leeway out of range");
  if (static_cast<std::int64_t>(count_code_points(text->bytes)) <= length + leeway) return text;
  Value kept = slice_value(self.budget(), text, {.stop = length - end_length});
  if (!given.flag(1, false)) {
    const std::size_t blank = kept.text()->bytes.rfind(' ');
    if (blank != std::string::npos) kept = sub_text(self.budget(), *kept.text(), 0, blank);
  }
  return add(self.budget(), kept, end);
}

// urllib's quote with "/" safe; for a query "/" is escaped and a blank is a plus.
std::string quote(std::string_view s, bool query) {
  std::string out;
  for (const char c : s) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value filter_urlencode(Interpreter& self, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "urlencode");
  if (!input.dict()) {
    const TextPtr text = text_of(self, input);
    return make_string(self.budget(), quote(text->bytes, false), !text->foreign.empty());
  }
  TextBuilder out(self.budget());
  for (const auto& [key, value] : input.dict()->entries()) {
    if (out.size()) out.append("&");
    for (const Value* part : {&key, &value}) {
      const TextPtr text = text_of(self, *part);
      out.append(quote(text->bytes, true), !text->foreign.empty());
      if (part == &key) out.append("=");
    }
  }
  return out.finish();
}

// int(text): white space around, sign, digits with single underscores. nullopt when it is none.
std::optional<std::int64_t> parse_integer(std::string_view s, int base) {
  const Span inner = strip_range(s, nullptr);
  std::string digits(s.substr(inner.begin, inner.end - inner.begin));
  std::erase(digits, '_');
  std::string_view rest = digits;
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  const bool negative = !rest.empty() && rest[0] == '-';
  std::string plain(negative ? rest.substr(1) : rest);
  const char mark = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
  if (mark && plain.size() > 2 && plain[0] == '0' && (plain[1] | 0x20) == mark) plain.erase(0, 2);
  if (plain.empty() || plain[0] == '-' || plain[0] == '+') return std::nullopt;
  if (negative) plain.insert(0, "-");
  std::int64_t value = 0;
  const char* end = plain.data() + plain.size();
  const auto [stop, error] = std::from_chars(plain.data(), end, value, base);
  if (error == std::errc::result_out_of_range) fail_template("an integer out of range");
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view s) {
  const Span inner = strip_range(s, nullptr);
  std::string digits(s.substr(inner.begin, inner.end - inner.begin));
  std::erase(digits, '_');
  std::string_view rest = digits;
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || stop != rest.data() + rest.size() || rest.empty())
    return std::nullopt;
  return value;
}

std::optional<std::int64_t> truncate_float(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18) fail_template("an integer out of range");
  return static_cast<std::int64_t>(value);
}

Value filter_int(Interpreter&, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "int", {"default", "base"});
  if (const auto* u = input.as<Undefined>()) fail_undefined(*u);
  const Value otherwise = given.get(0) ? *given.get(0) : Value(std::int64_t{0});
  std::int64_t i = 0;
  if (as_integer(input, i)) return i;
  std::optional<std::int64_t> found;
  if (const auto* d = input.as<double>()) {
    found = truncate_float(*d);
  } else if (const Text* text = input.text()) {
    const std::int64_t base = given.integer(1, 10);
    if (base < 2 || base > 36) fail_template("int: base {} is not between 2 and 36", base);
    found = parse_integer(text->bytes, static_cast<int>(base));
    if (!found)
      if (const auto number = parse_float(text->bytes)) found = truncate_float(*number);
  }
  return found ? Value(*found) : otherwise;
}

Value filter_float(Interpreter&, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "float", {"default"});
  if (const auto* u = input.as<Undefined>()) fail_undefined(*u);
  double number = 0;
  if (as_float(input, number)) return number;
  if (const Text* text = input.text())
    if (const auto found = parse_float(text->bytes)) return *found;
  return given.get(0) ? *given.get(0) : Value(0.0);
}

Value filter_abs(Interpreter&, const Value& input, Arguments& arguments) {
  no_arguments(arguments, "abs");
  double number = 0;
  if (const auto* u = input.as<Undefined>()) fail_undefined(*u);
  if (!as_float(input, number)) fail_template("abs wants a number, got {}", type_name(input));
  return number < 0 ? negate(input) : negate(negate(input));
}

// Correct for decimal halves as Python's round(): through the shortest exact decimal form.
double round_half_even(double value, std::int64_t digits) {
  char buffer[400];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed,
                                 static_cast<int>(digits));
  double rounded = value;
  if (end.ec == std::errc()) std::from_chars(buffer, end.ptr, rounded);
  return rounded;
}

Value filter_round(Interpreter&, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "round", {"precision", "method"});
  double number = 0;
  if (const auto* u = input.as<Undefined>()) fail_undefined(*u);
  if (!as_float(input, number)) fail_template("round wants a number, got {}", type_name(input));
  const std::int64_t digits = given.integer(0, 0);
  if (digits < 0 || digits > 30) fail_template("round: precision {} is not in 0..30", digits);
  const std::string method = given.text(1) ? given.text(1)->bytes : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return std::ceil(number * scale) / scale;
  if (method == "floor") return std::floor(number * scale) / scale;
  if (method != "common") fail_template("round: method must be common, ceil or floor");
  if (!input.is<double>()) return input;
  return round_half_even(number, digits);
}

constexpr FilterEntry kFilters[] = {
    {"lower", filter_case<LetterCase::kLower>},
    {"upper", filter_case<LetterCase::kUpper>},
    {"capitalize", filter_case<LetterCase::kCapitalize>},
    {"title", filter_title},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"indent", filter_indent},
    {"string", filter_string},
    {"safe", filter_safe},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_force_escape},
    {"center", filter_center},
    {"format", filter_format},
    {"wordcount", filter_word_count},
    {"urlencode", filter_urlencode},
    {"truncate", filter_truncate},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
};

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  for (const FilterEntry& entry : kFilters)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ingot::jinja
