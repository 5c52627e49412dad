#include "text/jinja_interpreter.h"

// Tests (`x is odd`). Semantics: jinja2 3.1 tests.py.
namespace ingot::jinja {

namespace {

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

void none_wanted(Arguments& arguments) {
  Parameters(arguments, "test", {});
}

template <typename T>
bool is_type(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.is<T>();
}

bool is_defined(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return !value.is<Undefined>();
}

template <bool wanted>
bool is_boolean(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  const bool* b = value.as<bool>();
  return b && *b == wanted;
}

bool is_number(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.is_number();
}

bool is_iterable(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.is<Undefined>() || value.text() || value.list() || value.dict() ||
         value.is<LoopPtr>();
}

bool is_sequence(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  if (const List* list = value.list())
    return list->kind != ListKind::kGenerator && list->kind != ListKind::kView;
  return value.is<Undefined>() || value.text() || value.dict();
}

bool is_callable(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.is<CallablePtr>() || value.is<LoopPtr>() || value.is<Undefined>();
}

bool is_escaped(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.text() && value.text()->html_safe;
}

std::int64_t modulus(Interpreter& self, const Value& value, std::int64_t by) {
  const Value rest = modulo(self.budget(), value, by);
  std::int64_t number = 0;
  if (!as_integer(rest, number)) {
    double real = 0;
    if (!as_float(rest, real)) fail_template("not a number: {}", type_name(value));
    return real == 0 ? 0 : real == 1 ? 1 : 2;
  }
  return number;
}

template <std::int64_t rest>
bool is_parity(Interpreter& self, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  if (value.text()) fail_template("odd and even want a number, got str");
  return modulus(self, value, 2) == rest;
}

bool is_divisible(Interpreter& self, const Value& value, Arguments& arguments) {
  const Parameters given(arguments, "divisibleby", {"num"});
  given.required(0);
  if (value.text()) fail_template("divisibleby wants a number, got str");
  return modulus(self, value, given.integer(0, 1)) == 0;
}

template <bool upper>
bool is_case(Interpreter& self, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  const TextPtr text = to_text(self.budget(), value);
  self.budget().work(text->bytes.size());
  return has_case(text->bytes, upper);
}

bool is_filter_name(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.text() && find_filter(value.text()->bytes);
}

bool is_test_name(Interpreter&, const Value& value, Arguments& arguments) {
  none_wanted(arguments);
  return value.text() && find_test(value.text()->bytes);
}

bool is_in(Interpreter& self, const Value& value, Arguments& arguments) {
  const Parameters given(arguments, "in", {"seq"});
  return contains(given.required(0), value, self.budget());
}

// The same object; equal constants of the small types are one object in Python, too.
bool is_same(Interpreter& self, const Value& value, Arguments& arguments) {
  const Parameters given(arguments, "sameas", {"other"});
  const Value& other = given.required(0);
  if (value.list() || other.list()) return value.list() == other.list();
  if (value.dict() || other.dict()) return value.dict() == other.dict();
  return type_name(value) == type_name(other) && equal(self.budget(), value, other);
}

enum class Order { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

template <Order order>
bool compares(Interpreter& self, const Value& value, Arguments& arguments) {
  const Parameters given(arguments, "comparison", {"other"});
  const Value& other = given.required(0);
  switch (order) {
    case Order::kEqual:
      return equal(self.budget(), value, other);
    case Order::kNotEqual:
      return !equal(self.budget(), value, other);
    case Order::kLess:
      return less(self.budget(), value, other);
    case Order::kLessEqual:
      return less(self.budget(), value, other) || equal(self.budget(), value, other);
    case Order::kGreater:
      return less(self.budget(), other, value);
    case Order::kGreaterEqual:
      return less(self.budget(), other, value) || equal(self.budget(), value, other);
  }
  return false;
}

constexpr TestEntry kTests[] = {
    {"defined", is_defined},
    {"undefined", is_type<Undefined>},
    {"none", is_type<None>},
    {"boolean", is_type<bool>},
    {"true", is_boolean<true>},
    {"false", is_boolean<false>},
    {"integer", is_type<std::int64_t>},
    {"float", is_type<double>},
    {"number", is_number},
    {"string", is_type<TextPtr>},
    {"mapping", is_type<DictPtr>},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"escaped", is_escaped},
    {"odd", is_parity<1>},
    {"even", is_parity<0>},
    {"divisibleby", is_divisible},
    {"lower", is_case<false>},
    {"upper", is_case<true>},
    {"filter", is_filter_name},
    {"test", is_test_name},
    {"in", is_in},
    {"sameas", is_same},
    {"==", compares<Order::kEqual>},
    {"eq", compares<Order::kEqual>},
    {"equalto", compares<Order::kEqual>},
    {"!=", compares<Order::kNotEqual>},
    {"ne", compares<Order::kNotEqual>},
    {"<", compares<Order::kLess>},
    {"lt", compares<Order::kLess>},
    {"lessthan", compares<Order::kLess>},
    {"<=", compares<Order::kLessEqual>},
    {"le", compares<Order::kLessEqual>},
    {">", compares<Order::kGreater>},
    {"gt", compares<Order::kGreater>},
    {"greaterthan", compares<Order::kGreater>},
    {">=", compares<Order::kGreaterEqual>},
    {"ge", compares<Order::kGreaterEqual>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const TestEntry& entry : kTests)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ingot::jinja
