#pragma once

#include "text/jinja_ast.h"
#include "text/jinja_registry.h"

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::jinja {

// Variables of one block. Lookup goes outwards.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;

  const Value* find(int name, Budget& budget) const;
  void set(int name, Value value);
};

// One render of one program. Single use, single thread; everything it made dies with it.
class Interpreter {
 public:
  Interpreter(const Program& program, const Limits& limits, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws Failure or Raised; position() then says where.
  TextPtr render(const std::vector<std::pair<std::string, Value>>& variables);
  std::size_t position() const { return at_; }

  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }

  // For filters, tests and functions.
  Value call(const Value& function, Arguments& arguments);
  Value apply_filter(std::string_view name, const Value& input, Arguments& arguments);
  bool apply_test(std::string_view name, const Value& input, Arguments& arguments);
  Value attribute(const Value& object, const std::string& name);  // object.name
  Value item(const Value& object, const Value& index);            // object[index]
  // What a loop runs over; reads a generator empty.
  ListPtr iterate(const Value& value);
  // Values that can hold others without a bound on nesting, or be part of a cycle, live until the
  // end of the render: then their destruction does not recurse and no cycle leaks.
  void keep_alive(Value value) { kept_.push_back(std::move(value)); }

  Value string(std::string bytes) { return make_string(budget_, std::move(bytes)); }
  Value list(std::vector<Value> items, ListKind kind = ListKind::kList) {
    return make_list(budget_, std::move(items), kind);
  }
  Value callable(std::string name, std::function<Value(Interpreter&, Arguments&)> function);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class Depth;
  class ScopeGuard;
  class OutputGuard;

  // jinja_statements.cpp
  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  Flow run_loop(const Statement& statement, const ListPtr& items, int depth);
  ListPtr loop_items(const Statement& statement, const Value& iterable);
  Flow run_set_block(const Statement& statement);
  Flow run_filter_block(const Statement& statement);
  Flow run_with(const Statement& statement);
  void run_call_block(const Statement& statement);
  Flow run_inner_block(const Statement& statement);
  Value make_macro(const Statement& statement);
  Value call_macro(const Statement& statement, const std::shared_ptr<Scope>& home,
                   Arguments& arguments);
  void bind_parameters(const Statement& statement, Arguments& arguments);
  void bind_extra(const Statement& statement, Arguments& arguments);
  void assign(const Target& target, Value value);
  void unpack(const Target& target, const Value& value);

  // jinja_expressions.cpp
  Value evaluate(const Expr& node);
  Value evaluate_node(const Expr& node);
  Value evaluate_name(const Expr& node);
  Value evaluate_list(const Expr& node, ListKind kind);
  Value evaluate_dict(const Expr& node);
  Value evaluate_sum(const Expr& node);
  Value evaluate_product(const Expr& node);
  Value evaluate_concat(const Expr& node);
  Value evaluate_logic(const Expr& node, bool stop_at);
  Value evaluate_compare(const Expr& node);
  Value evaluate_condition(const Expr& node);
  Value evaluate_item(const Expr& node);
  Value evaluate_slice(const Value& object, const Expr& slice);
  Value evaluate_call(const Expr& node);
  Value evaluate_filter(const Expr& node, const Value* input);
  Value evaluate_test(const Expr& node);
  Arguments evaluate_arguments(const ArgumentList& list);

  const Program& program_;
  Budget budget_;
  std::time_t now_;
  std::size_t at_ = 0;  // offset of what is evaluated
  int depth_ = 0;
  int loop_name_ = -1;
  std::vector<Value> kept_;
  std::vector<std::shared_ptr<Scope>> captured_;  // scopes that macros look into
  std::shared_ptr<Scope> scope_;
  TextBuilder* output_ = nullptr;
};

// Operators on values (jinja_operators.cpp).
Value add(Budget& budget, const Value& a, const Value& b);
Value subtract(const Value& a, const Value& b);
Value multiply(Budget& budget, const Value& a, const Value& b);
Value divide(const Value& a, const Value& b);
Value floor_divide(const Value& a, const Value& b);
Value modulo(Budget& budget, const Value& a, const Value& b);
Value power(const Value& a, const Value& b);
Value negate(const Value& a);

// Bounds of a Python slice over `length` elements; a missing bound is none.
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};
struct SliceBounds {
  std::optional<std::int64_t> start, stop, step;
};
SliceRange resolve_slice(const SliceBounds& bounds, std::int64_t length);
Value slice_value(Budget& budget, const Value& object, const SliceBounds& bounds);

// "%s" % values, and "{}".format(values) (jinja_format.cpp).
Value format_percent(Budget& budget, const Text& format, const Value& values);
Value format_braces(Interpreter& interpreter, const Text& format, Arguments& arguments);

}  // namespace ingot::jinja
