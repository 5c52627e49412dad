#pragma once

#include "text/jinja_string.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// Values of the template language: Python's, as far as chat templates use them.
namespace ingot::jinja {

struct List;
class Dict;
struct Namespace;
struct Callable;
struct Loop;
class Interpreter;

// What a missing name or attribute gives: false, empty, an error when used. `what` names it.
struct Undefined {
  std::shared_ptr<const std::string> what;
};
struct None {};
using ListPtr = std::shared_ptr<List>;
using DictPtr = std::shared_ptr<Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using CallablePtr = std::shared_ptr<const Callable>;
using LoopPtr = std::shared_ptr<Loop>;

template <typename T, typename... Options>
concept OneOf = (std::same_as<T, Options> || ...);

class Value {
 public:
  Value() = default;  // undefined
  template <typename T>
    requires OneOf<T, Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr,
                   NamespacePtr, CallablePtr, LoopPtr>
  Value(T value) : data_(std::move(value)) {}

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  // The text of a string, else null.
  const Text* text() const {
    const auto* p = as<TextPtr>();
    return p ? p->get() : nullptr;
  }
  List* list() const {
    const auto* p = as<ListPtr>();
    return p ? p->get() : nullptr;
  }
  Dict* dict() const {
    const auto* p = as<DictPtr>();
    return p ? p->get() : nullptr;
  }
  bool is_number() const { return is<bool>() || is<std::int64_t>() || is<double>(); }

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr, NamespacePtr,
               CallablePtr, LoopPtr>
      data_;
};

// kGenerator: read once, no length, no index (map, select, items, ...); kView: a dict's keys.
enum class ListKind { kList, kTuple, kGenerator, kView, kRange };

struct List {
  explicit List(Budget& owner, ListKind list_kind) : kind(list_kind), budget(&owner) {}
  ~List() { budget->give_back(charged); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  void charge(std::size_t count) {
    budget->take(count * sizeof(Value));
    charged += count * sizeof(Value);
  }

  std::vector<Value> items;
  ListKind kind;
  bool is_group = false;  // of groupby: .grouper and .list
  bool kept = false;      // until the end of the render (Interpreter::keep_alive)
  int depth = 1;  // containers nested inside, when it was made: bounds recursion on destruction
  Budget* budget;
  std::size_t charged = 0;
};

// In the order of insertion, as Python's.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  explicit Dict(Budget& budget) : budget_(&budget) {}
  ~Dict() { budget_->give_back(charged_); }
  Dict(const Dict&) = delete;
  Dict& operator=(const Dict&) = delete;

  // Throws Failure when the key cannot be hashed (list, dict).
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
  bool erase(const Value& key);
  void clear();
  const std::vector<Entry>& entries() const { return entries_; }
  int depth = 1;
  bool kept = false;

 private:
  Budget* budget_;
  std::size_t charged_ = 0;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

// Arguments of one call. `name` is for messages.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::vector<std::string> parameters;  // of macros
  std::function<Value(Interpreter&, Arguments&)> call;
};

// `loop` inside a for.
struct Loop {
  ListPtr items;
  std::size_t index0 = 0;
  int depth0 = 0;
  std::vector<Value> changed;  // what loop.changed() saw last
  bool changed_before = false;
  std::function<Value(Interpreter&, const Value&)> recurse;  // of `recursive` loops
};

// Names of types as in Python's messages.
std::string_view type_name(const Value& value);
bool truth(const Value& value);
// Python's ==; never fails on mixed types. Throws Failure when nested too deep.
bool equal(Budget& budget, const Value& a, const Value& b, int depth = 0);
// Python's <; throws Failure on types that have no order.
bool less(Budget& budget, const Value& a, const Value& b, int depth = 0);
// `item in container`.
bool contains(const Value& container, const Value& item, Budget& budget);
// str(value): `safe` stays safe.
TextPtr to_text(Budget& budget, const Value& value);
// Appends str(value), or repr(value).
void append_str(TextBuilder& out, const Value& value);
void append_repr(TextBuilder& out, const Value& value, int depth = 0);
std::string float_repr(double value);
// repr() of a string's bytes.
std::string string_repr(std::string_view bytes);

// Throws Failure: "'name' is undefined".
[[noreturn]] void fail_undefined(const Undefined& undefined);
Value undefined(std::string what);

Value make_string(Budget& budget, std::string bytes, bool foreign = false);
// Charges the items and refuses too deep nesting.
Value make_list(Budget& budget, std::vector<Value> items, ListKind kind = ListKind::kList);
int container_depth(const Value& value);
// The numbers as Python sees them: bool counts as int.
bool as_integer(const Value& value, std::int64_t& out);
bool as_float(const Value& value, double& out);

}  // namespace ingot::jinja
