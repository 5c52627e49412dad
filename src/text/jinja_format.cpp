#include "text/jinja_interpreter.h"
#include "text/jinja_text_ops.h"

#include <charconv>
#include <cmath>

// "%s" % value and "{}".format(value), as far as templates use them; the rest is an error.
namespace ingot::jinja {

namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;

// What both notations know: [fill][align][sign][0][width][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^'; '=' pads after the sign
  char sign = '-';    // '-', '+' or ' '
  bool alternate = false;
  bool grouping = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = '\0';
};

std::int64_t read_number(std::string_view s, std::size_t& i) {
  std::int64_t number = 0;
  for (; i < s.size() && s[i] >= '0' && s[i] <= '9'; ++i) {
    number = number * 10 + (s[i] - '0');
    if (number > kMaxWidth) fail_template("a format width above {}", kMaxWidth);
  }
  return number;
}

std::string group_thousands(std::string digits) {
  std::size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (std::size_t i = end; i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string float_digits(double value, const Spec& spec) {
  if (!std::isfinite(value)) return float_repr(std::abs(value));
  if (spec.type == '\0' && spec.precision < 0) return float_repr(std::abs(value));
  char buffer[512];
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  if (precision > 100) fail_template("a format precision above 100");
  const char low = static_cast<char>(spec.type | 0x20);
  const char form[] = {'%', '.', '*', low == 'e' || low == 'f' ? low : 'g', '\0'};
  const double magnitude = std::abs(spec.type == '%' ? value * 100 : value);
  const char* format = spec.type == '%' ? "%.*f" : form;
  std::string out(buffer, static_cast<std::size_t>(
                              std::snprintf(buffer, sizeof(buffer), format, precision, magnitude)));
  if (spec.type == '%') out += '%';
  if (spec.type == 'E' || spec.type == 'G')
    for (char& c : out) c = c == 'e' ? 'E' : c;
  return out;
}

std::string integer_digits(std::int64_t value, const Spec& spec) {
  const auto magnitude = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                                   : static_cast<std::uint64_t>(value);
  switch (spec.type) {
    case 'x':
      return fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude);
    case 'b':
      return fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

TextPtr format_number(Budget& budget, const Value& value, const Spec& spec) {
  std::int64_t integer = 0;
  double real = 0;
  std::string digits;
  bool negative = false;
  const bool real_type =
      spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (as_integer(value, integer) && !real_type) {
    negative = integer < 0;
    digits = integer_digits(integer, spec);
  } else if (as_float(value, real)) {
    negative = std::signbit(real);
    digits = float_digits(real, spec);
  } else {
    fail_template("format '{}' wants a number, got {}", spec.type, type_name(value));
  }
  if (spec.grouping) digits = group_thousands(std::move(digits));
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const char align = spec.align ? spec.align : '>';
  if (align == '=') {
    const TextPtr body = make_text(budget, std::move(digits));
    TextBuilder out(budget);
    out.append(sign);
    out.append(
        *pad(budget, *body, spec.width - static_cast<std::int64_t>(sign.size()), '>', spec.fill));
    return out.finish();
  }
  return pad(budget, *make_text(budget, sign + digits), spec.width, align, spec.fill);
}

TextPtr format_text(Budget& budget, const TextPtr& text, const Spec& spec, char default_align) {
  Value shown = text;
  if (spec.precision >= 0) shown = slice_value(budget, shown, {.stop = spec.precision});
  return pad(budget, *shown.text(), spec.width, spec.align ? spec.align : default_align, spec.fill);
}

TextPtr repr_text(Budget& budget, const Value& value) {
  TextBuilder out(budget);
  append_repr(out, value);
  return out.finish();
}

// Hands out the values of a % operation one after the other.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values) {
    const List* list = values.list();
    if (list && list->kind == ListKind::kTuple) tuple_ = list;
  }
  const Value& next() {
    if (tuple_) {
      if (at_ >= tuple_->items.size()) fail_template("not enough arguments for format string");
      return tuple_->items[at_++];
    }
    if (at_++ > 0) fail_template("not enough arguments for format string");
    return values_;
  }
  const Value& named(const std::string& name) {
    if (!values_.dict()) fail_template("format requires a mapping");
    const Value* found = values_.dict()->find(name);
    if (!found) fail_template("format: no value for '{}'", name.substr(0, 80));
    at_ = 1;
    return *found;
  }
  void finish() const {
    // A list counts as a mapping in Python, which need not be used up.
    const bool mapping = values_.dict() || values_.list();
    const bool rest = tuple_ ? at_ < tuple_->items.size() : at_ == 0 && !mapping;
    if (rest) fail_template("not all arguments converted during string formatting");
  }

 private:
  const Value& values_;
  const List* tuple_ = nullptr;
  std::size_t at_ = 0;
};

Spec read_percent_spec(std::string_view s, std::size_t& i) {
  Spec spec;
  for (; i < s.size(); ++i) {
    if (s[i] == '-') {
      spec.align = '<';
    } else if (s[i] == '+' || (s[i] == ' ' && spec.sign == '-')) {
      spec.sign = s[i];
    } else if (s[i] == '0') {
      if (spec.align != '<') spec.align = '=';
      spec.fill = "0";
    } else if (s[i] == '#') {
      spec.alternate = true;
    } else {
      break;
    }
  }
  spec.width = read_number(s, i);
  if (i < s.size() && s[i] == '.') spec.precision = read_number(s, ++i);
  if (i >= s.size()) fail_template("incomplete format");
  spec.type = s[i++];
  return spec;
}

TextPtr format_one(Budget& budget, const Value& value, Spec spec) {
  if (spec.align == '<') spec.fill = " ";
  switch (spec.type) {
    case 's':
    case 'r': {
      if (spec.align == '=') spec.align = '>', spec.fill = " ";
      const TextPtr text = spec.type == 's' ? to_text(budget, value) : repr_text(budget, value);
      return format_text(budget, text, spec, '>');
    }
    case 'd':
    case 'i':
    case 'u': {
      spec.type = 'd';
      double real = 0;
      if (value.is<double>() && as_float(value, real) && std::abs(real) < 9.2e18)
        return format_number(budget, static_cast<std::int64_t>(real), spec);
      return format_number(budget, value, spec);
    }
    case 'x':
    case 'X':
    case 'o':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return format_number(budget, value, spec);
    default:
      fail_template("unsupported format character '{}'", spec.type);
  }
}

}  // namespace

Value format_percent(Budget& budget, const Text& format, const Value& given) {
  PercentValues values(given);
  const std::string_view s = format.bytes;
  TextBuilder out(budget);
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t percent = std::min(s.find('%', i), s.size());
    out.append(format, i, percent);
    i = percent + 1;
    if (percent == s.size()) break;
    if (i < s.size() && s[i] == '%') {
      out.append("%");
      ++i;
      continue;
    }
    const Value* value = nullptr;
    if (i < s.size() && s[i] == '(') {
      const std::size_t close = s.find(')', i);
      if (close == s.npos) fail_template("incomplete format key");
      value = &values.named(std::string(s.substr(i + 1, close - i - 1)));
      i = close + 1;
    }
    const Spec spec = read_percent_spec(s, i);
    if (!value) value = &values.next();
    TextPtr shown = format_one(budget, *value, spec);
    const bool value_safe = value->text() && value->text()->html_safe;
    if (format.html_safe && !value_safe) shown = escape_html(budget, *shown);
    out.append(*shown);
  }
  values.finish();
  return out.finish(format.html_safe);
}

namespace {

Spec read_brace_spec(std::string_view s) {
  Spec spec;
  std::size_t i = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!s.empty()) {
    const std::size_t n = code_point_bytes(s, 0);
    if (n < s.size() && is_align(s[n])) {
      spec.fill = s.substr(0, n);
      spec.align = s[n];
      i = n + 1;
    } else if (is_align(s[0])) {
      spec.align = s[0];
      i = 1;
    }
  }
  if (i < s.size() && (s[i] == '+' || s[i] == '-' || s[i] == ' ')) spec.sign = s[i++];
  if (i < s.size() && s[i] == '#') spec.alternate = s[i++] == '#';
  if (i < s.size() && s[i] == '0') {
    if (!spec.align) spec.align = '=', spec.fill = "0";
    ++i;
  }
  spec.width = read_number(s, i);
  if (i < s.size() && s[i] == ',') spec.grouping = s[i++] == ',';
  if (i < s.size() && s[i] == '.') spec.precision = read_number(s, ++i);
  if (i < s.size()) spec.type = s[i++];
  if (i != s.size() ||
      (spec.type && std::string_view("sdxXobeEfFgG%").find(spec.type) == std::string_view::npos))
    fail_template("unsupported format specification '{}'", s.substr(0, 80));
  return spec;
}

TextPtr format_field(Budget& budget, const Value& value, std::string_view specification) {
  if (specification.empty()) return to_text(budget, value);
  const Spec spec = read_brace_spec(specification);
  if (value.is_number() && !(value.is<bool>() && !spec.type)) {
    if (spec.type == 's') fail_template("format 's' wants a string, got {}", type_name(value));
    return format_number(budget, value, spec);
  }
  if (spec.type && spec.type != 's')
    fail_template("format '{}' wants a number, got {}", spec.type, type_name(value));
  return format_text(budget, to_text(budget, value), spec, '<');
}

// The value of "0", "name" or "" (the next one), with ".attribute" and "[index]" after it.
Value find_field(Interpreter& interpreter, std::string_view name, Arguments& arguments,
                 std::size_t& next) {
  const std::size_t end = std::min(name.find_first_of(".["), name.size());
  const std::string_view first = name.substr(0, end);
  Value value;
  if (first.empty() || first.find_first_not_of("0123456789") == first.npos) {
    std::size_t index = 0;
    if (first.empty()) {
      index = next++;
    } else {
      std::from_chars(first.data(), first.data() + first.size(), index);
    }
    if (index >= arguments.positional.size())
      fail_template("Replacement index {} out of range for positional args tuple", index);
    value = arguments.positional[index];
  } else {
    bool found = false;
    for (const auto& [key, given] : arguments.named) {
      if (key != first) continue;
      value = given;
      found = true;
    }
    if (!found) fail_template("format: no argument named '{}'", first.substr(0, 80));
  }
  for (std::size_t i = end; i < name.size();) {
    const bool bracket = name[i] == '[';
    std::size_t stop = bracket ? name.find(']', i) : name.find_first_of(".[", i + 1);
    if (bracket && stop == name.npos) fail_template("expected ']' in a format field");
    stop = std::min(stop, name.size());
    value = interpreter.attribute(value, std::string(name.substr(i + 1, stop - i - 1)));
    if (const auto* u = value.as<Undefined>()) fail_undefined(*u);
    i = bracket ? stop + 1 : stop;
  }
  return value;
}

}  // namespace

Value format_braces(Interpreter& interpreter, const Text& format, Arguments& arguments) {
  Budget& budget = interpreter.budget();
  const std::string_view s = format.bytes;
  TextBuilder out(budget);
  std::size_t next = 0;
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t brace = std::min(s.find_first_of("{}", i), s.size());
    out.append(format, i, brace);
    i = brace + 1;
    if (brace == s.size()) break;
    if (i < s.size() && s[i] == s[brace]) {
      out.append(format, brace, i);
      ++i;
      continue;
    }
    if (s[brace] == '}') fail_template("Single '}}' encountered in format string");
    const std::size_t close = s.find('}', i);
    if (close == s.npos) fail_template("Single '{{' encountered in format string");
    std::string_view field = s.substr(i, close - i);
    i = close + 1;
    if (field.find('{') != field.npos) fail_template("nested format fields are not supported");
    const std::size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
    const bool repr = name.ends_with("!r");
    if (repr || name.ends_with("!s")) name.remove_suffix(2);
    Value value = find_field(interpreter, name, arguments, next);
    if (repr) value = repr_text(budget, value);
    out.append(*format_field(budget, value, spec));
  }
  return out.finish(format.html_safe);
}

}  // namespace ingot::jinja
