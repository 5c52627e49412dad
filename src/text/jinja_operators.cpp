#include "text/jinja_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ingot::jinja {

namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b) {
  if (const auto* u = a.as<Undefined>()) fail_undefined(*u);
  if (const auto* u = b.as<Undefined>()) fail_undefined(*u);
  fail_template("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(a),
                type_name(b));
}

[[noreturn]] void fail_overflow() {
  fail_template("an integer out of range");
}

// Both numbers, or fails.
struct Numbers {
  Numbers(std::string_view op, const Value& a, const Value& b) {
    integers = as_integer(a, i) && as_integer(b, j);
    if (!as_float(a, x) || !as_float(b, y)) fail_operands(op, a, b);
  }
  bool integers = false;
  std::int64_t i = 0;
  std::int64_t j = 0;
  double x = 0;
  double y = 0;
};

Value join_lists(Budget& budget, const List& a, const List& b) {
  std::vector<Value> items;
  budget.work((a.items.size() + b.items.size()) * sizeof(Value));
  items.reserve(a.items.size() + b.items.size());
  items.insert(items.end(), a.items.begin(), a.items.end());
  items.insert(items.end(), b.items.begin(), b.items.end());
  return make_list(budget, std::move(items), a.kind);
}

Value repeat(Budget& budget, const Value& value, std::int64_t count) {
  count = std::max<std::int64_t>(count, 0);
  const auto times = static_cast<std::uint64_t>(count);
  if (const Text* text = value.text()) {
    if (text->bytes.empty()) return value;
    if (times > budget.limits().max_output_bytes / text->bytes.size())
      fail_template("a string longer than {} bytes", budget.limits().max_output_bytes);
    TextBuilder out(budget);
    for (std::uint64_t k = 0; k < times; ++k) out.append(*text);
    return out.finish(text->html_safe);
  }
  const List* list = value.list();
  if (!list->items.empty() &&
      times > budget.limits().max_memory_bytes / sizeof(Value) / list->items.size())
    fail_template("a list with too many elements");
  std::vector<Value> items;
  if (!list->items.empty())
    for (std::uint64_t k = 0; k < times; ++k)
      items.insert(items.end(), list->items.begin(), list->items.end());
  return make_list(budget, std::move(items), list->kind);
}

bool is_plain_sequence(const Value& value) {
  const List* list = value.list();
  return value.text() ||
         (list && (list->kind == ListKind::kList || list->kind == ListKind::kTuple));
}

}  // namespace

Value add(Budget& budget, const Value& a, const Value& b) {
  if (a.text() && b.text()) {
    const bool safe = a.text()->html_safe || b.text()->html_safe;
    const auto part = [&](const Value& value) {
      const bool escape = safe && !value.text()->html_safe;
      return escape ? escape_html(budget, *value.text()) : *value.as<TextPtr>();
    };
    TextBuilder out(budget);
    out.append(*part(a));
    out.append(*part(b));
    return out.finish(safe);
  }
  if (a.list() && b.list() && a.list()->kind == b.list()->kind && is_plain_sequence(a))
    return join_lists(budget, *a.list(), *b.list());
  if (a.text() && !b.is<Undefined>())
    fail_template("can only concatenate str (not \"{}\") to str", type_name(b));
  const Numbers n("+", a, b);
  if (!n.integers) return n.x + n.y;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(n.i, n.j, &sum)) fail_overflow();
  return sum;
}

Value subtract(const Value& a, const Value& b) {
  const Numbers n("-", a, b);
  if (!n.integers) return n.x - n.y;
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(n.i, n.j, &difference)) fail_overflow();
  return difference;
}

Value multiply(Budget& budget, const Value& a, const Value& b) {
  std::int64_t count = 0;
  if (is_plain_sequence(a) && as_integer(b, count)) return repeat(budget, a, count);
  if (is_plain_sequence(b) && as_integer(a, count)) return repeat(budget, b, count);
  const Numbers n("*", a, b);
  if (!n.integers) return n.x * n.y;
  std::int64_t product = 0;
  if (__builtin_mul_overflow(n.i, n.j, &product)) fail_overflow();
  return product;
}

Value divide(const Value& a, const Value& b) {
  const Numbers n("/", a, b);
  if (n.y == 0) fail_template("division by zero");
  return n.x / n.y;
}

Value floor_divide(const Value& a, const Value& b) {
  const Numbers n("//", a, b);
  if (n.y == 0) fail_template("division by zero");
  if (!n.integers) return std::floor(n.x / n.y);
  if (n.i == kMin && n.j == -1) fail_overflow();
  std::int64_t quotient = n.i / n.j;
  if (n.i % n.j != 0 && (n.i < 0) != (n.j < 0)) --quotient;
  return quotient;
}

Value modulo(Budget& budget, const Value& a, const Value& b) {
  if (const Text* format = a.text()) return format_percent(budget, *format, b);
  const Numbers n("%", a, b);
  if (n.y == 0) fail_template("division or modulo by zero");
  if (!n.integers) {
    double rest = std::fmod(n.x, n.y);
    if (rest != 0 && (rest < 0) != (n.y < 0)) rest += n.y;
    return rest;
  }
  if (n.j == -1) return std::int64_t{0};
  std::int64_t rest = n.i % n.j;
  if (rest != 0 && (rest < 0) != (n.j < 0)) rest += n.j;
  return rest;
}

Value power(const Value& a, const Value& b) {
  const Numbers n("**", a, b);
  if (!n.integers || n.j < 0) {
    if (n.x == 0 && n.y < 0) fail_template("0 cannot be raised to a negative power");
    return std::pow(n.x, n.y);
  }
  std::int64_t result = 1;
  std::int64_t base = n.i;
  for (std::int64_t exponent = n.j; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value negate(const Value& a) {
  if (const auto* u = a.as<Undefined>()) fail_undefined(*u);
  std::int64_t i = 0;
  if (as_integer(a, i)) {
    if (i == kMin) fail_overflow();
    return -i;
  }
  if (const auto* d = a.as<double>()) return -*d;
  fail_template("bad operand type for unary -: '{}'", type_name(a));
}

SliceRange resolve_slice(const SliceBounds& bounds, std::int64_t length) {
  SliceRange range{.step = bounds.step.value_or(1)};
  if (range.step == 0) fail_template("slice step cannot be zero");
  const bool back = range.step < 0;
  const std::int64_t low = back ? -1 : 0;
  const std::int64_t high = back ? length - 1 : length;
  const auto clamp = [&](std::int64_t i) {
    if (i < 0) i = i < -length ? low : i + length;
    return std::clamp(i, low, high);
  };
  range.start = bounds.start ? clamp(*bounds.start) : (back ? high : low);
  range.stop = bounds.stop ? clamp(*bounds.stop) : (back ? low : high);
  return range;
}

namespace {

// Steps through [start, stop); `visit` takes an index.
template <typename F>
void walk(const SliceRange& range, const F& visit) {
  // Steps past the end are cut so that the sum below cannot overflow.
  const std::int64_t step =
      std::clamp<std::int64_t>(range.step, -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  for (std::int64_t i = range.start; step > 0 ? i < range.stop : i > range.stop; i += step)
    visit(static_cast<std::size_t>(i));
}

// Byte offset `count` code points after byte `at`.
std::size_t skip_code_points(std::string_view s, std::size_t at, std::int64_t count) {
  for (; count > 0 && at < s.size(); --count) at += code_point_bytes(s, at);
  return at;
}

Value slice_text(Budget& budget, const Text& text, const SliceBounds& bounds) {
  const std::string_view s = text.bytes;
  budget.work(s.size());
  const SliceRange range = resolve_slice(bounds, static_cast<std::int64_t>(count_code_points(s)));
  if (range.step == 1) {
    if (range.start >= range.stop) return sub_text(budget, text, 0, 0);
    const std::size_t begin = skip_code_points(s, 0, range.start);
    return sub_text(budget, text, begin, skip_code_points(s, begin, range.stop - range.start));
  }
  budget.take(s.size() * sizeof(std::size_t));
  std::vector<std::size_t> offsets;
  offsets.reserve(s.size() + 1);
  for (std::size_t i = 0; i < s.size(); i += code_point_bytes(s, i)) offsets.push_back(i);
  offsets.push_back(s.size());
  budget.give_back(s.size() * sizeof(std::size_t));
  TextBuilder out(budget);
  walk(range, [&](std::size_t i) { out.append(text, offsets[i], offsets[i + 1]); });
  return out.finish(text.html_safe);
}

}  // namespace

Value slice_value(Budget& budget, const Value& object, const SliceBounds& bounds) {
  if (const auto* u = object.as<Undefined>()) fail_undefined(*u);
  if (const Text* text = object.text()) return slice_text(budget, *text, bounds);
  const List* list = object.list();
  if (!list || list->kind == ListKind::kGenerator || list->kind == ListKind::kView)
    fail_template("a '{}' cannot be sliced", type_name(object));
  std::vector<Value> items;
  budget.work(list->items.size());
  walk(resolve_slice(bounds, static_cast<std::int64_t>(list->items.size())),
       [&](std::size_t i) { items.push_back(list->items[i]); });
  return make_list(budget, std::move(items), list->kind);
}

}  // namespace ingot::jinja
