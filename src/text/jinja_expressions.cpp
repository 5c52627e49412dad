#include "text/jinja_interpreter.h"

#include <algorithm>

namespace ingot::jinja {

namespace {

// A name shortened for a message.
std::string shorten(std::string_view name) {
  return name.size() <= 80 ? std::string(name) : std::string(name.substr(0, 77)) + "...";
}

std::optional<Value> loop_attribute(Interpreter& interpreter, const LoopPtr& loop,
                                    std::string_view name) {
  const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  const std::vector<Value>& items = loop->items->items;
  const std::size_t count = items.size();
  const std::size_t i = loop->index0;
  if (name == "index") return number(i + 1);
  if (name == "index0") return number(i);
  if (name == "revindex") return number(count - i);
  if (name == "revindex0") return number(count - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == count);
  if (name == "length") return number(count);
  if (name == "depth") return number(static_cast<std::size_t>(loop->depth0) + 1);
  if (name == "depth0") return number(static_cast<std::size_t>(loop->depth0));
  if (name == "previtem") return i == 0 ? undefined("there is no previous item") : items[i - 1];
  if (name == "nextitem") return i + 1 == count ? undefined("there is no next item") : items[i + 1];
  if (name == "cycle")
    return interpreter.callable("cycle", [i](Interpreter&, Arguments& arguments) {
      if (arguments.positional.empty()) fail_template("no items for cycling given");
      return arguments.positional[i % arguments.positional.size()];
    });
  if (name == "changed")
    return interpreter.callable("changed", [loop](Interpreter& self, Arguments& arguments) {
      const bool same =
          loop->changed_before && loop->changed.size() == arguments.positional.size() &&
          std::equal(loop->changed.begin(), loop->changed.end(), arguments.positional.begin(),
                     [&](const Value& a, const Value& b) { return equal(self.budget(), a, b); });
      loop->changed_before = true;
      loop->changed = arguments.positional;
      self.keep_alive(LoopPtr(loop));
      return Value(!same);
    });
  return std::nullopt;
}

}  // namespace

Value Interpreter::callable(std::string name,
                            std::function<Value(Interpreter&, Arguments&)> function) {
  budget_.take(sizeof(Callable) + 64);
  auto made = std::make_shared<const Callable>(Callable{std::move(name), {}, std::move(function)});
  keep_alive(CallablePtr(made));
  return CallablePtr(std::move(made));
}

Value Interpreter::evaluate(const Expr& node) {
  if (depth_ >= budget_.limits().max_depth)
    fail_template("nested or recursing too deep (limit {})", budget_.limits().max_depth);
  ++depth_;
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  budget_.work(32);
  at_ = node.offset;
  return evaluate_node(node);
}

Value Interpreter::evaluate_node(const Expr& node) {
  switch (node.kind) {
    case ExprKind::kConstant:
      return node.value;
    case ExprKind::kName:
      return evaluate_name(node);
    case ExprKind::kList:
      return evaluate_list(node, ListKind::kList);
    case ExprKind::kTuple:
      return evaluate_list(node, ListKind::kTuple);
    case ExprKind::kDict:
      return evaluate_dict(node);
    case ExprKind::kSum:
      return evaluate_sum(node);
    case ExprKind::kProduct:
      return evaluate_product(node);
    case ExprKind::kConcat:
      return evaluate_concat(node);
    case ExprKind::kNegative:
      return negate(evaluate(*node.children[0]));
    case ExprKind::kPositive: {
      const Value value = evaluate(*node.children[0]);
      if (value.is<double>()) return value;
      return negate(negate(value));
    }
    case ExprKind::kNot:
      return !truth(evaluate(*node.children[0]));
    case ExprKind::kAnd:
      return evaluate_logic(node, false);
    case ExprKind::kOr:
      return evaluate_logic(node, true);
    case ExprKind::kCompare:
      return evaluate_compare(node);
    case ExprKind::kCondition:
      return evaluate_condition(node);
    case ExprKind::kAttribute: {
      const Value object = evaluate(*node.children[0]);
      at_ = node.offset;
      return attribute(object, node.text);
    }
    case ExprKind::kItem:
      return evaluate_item(node);
    case ExprKind::kSlice:
      fail_template("a slice outside an index");
    case ExprKind::kCall:
      return evaluate_call(node);
    case ExprKind::kFilter:
      return evaluate_filter(node, nullptr);
    case ExprKind::kTest:
      return evaluate_test(node);
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& node) {
  if (const Value* value = scope_->find(node.name, budget_)) return *value;
  if (auto global = find_global(*this, node.text)) return *std::move(global);
  return undefined(fmt::format("'{}' is undefined", shorten(node.text)));
}

Value Interpreter::evaluate_list(const Expr& node, ListKind kind) {
  std::vector<Value> items;
  items.reserve(node.children.size());
  for (const Expr* child : node.children) items.push_back(evaluate(*child));
  return list(std::move(items), kind);
}

Value Interpreter::evaluate_dict(const Expr& node) {
  auto dict = std::make_shared<Dict>(budget_);
  for (std::size_t i = 0; i < node.children.size(); i += 2) {
    const Value key = evaluate(*node.children[i]);
    dict->set(key, evaluate(*node.children[i + 1]));
  }
  return DictPtr(std::move(dict));
}

Value Interpreter::evaluate_sum(const Expr& node) {
  Value sum = evaluate(*node.children[0]);
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    const Value right = evaluate(*node.children[i + 1]);
    at_ = node.children[i + 1]->offset;
    sum = node.operators[i] == Operator::kAdd ? add(budget_, sum, right) : subtract(sum, right);
  }
  return sum;
}

Value Interpreter::evaluate_product(const Expr& node) {
  const Value left = evaluate(*node.children[0]);
  const Value right = evaluate(*node.children[1]);
  at_ = node.offset;
  switch (node.operators[0]) {
    case Operator::kMultiply:
      return multiply(budget_, left, right);
    case Operator::kDivide:
      return divide(left, right);
    case Operator::kFloorDivide:
      return floor_divide(left, right);
    case Operator::kModulo:
      return modulo(budget_, left, right);
    default:
      return power(left, right);
  }
}

Value Interpreter::evaluate_concat(const Expr& node) {
  TextBuilder out(budget_);
  for (const Expr* child : node.children) append_str(out, evaluate(*child));
  return out.finish();
}

Value Interpreter::evaluate_logic(const Expr& node, bool stop_at) {
  Value value;
  for (const Expr* child : node.children) {
    value = evaluate(*child);
    if (truth(value) == stop_at) break;
  }
  return value;
}

Value Interpreter::evaluate_compare(const Expr& node) {
  Value left = evaluate(*node.children[0]);
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.children[i + 1]);
    at_ = node.children[i + 1]->offset;
    bool holds = false;
    switch (node.operators[i]) {
      case Operator::kEqual:
        holds = equal(budget_, left, right);
        break;
      case Operator::kNotEqual:
        holds = !equal(budget_, left, right);
        break;
      case Operator::kLess:
        holds = less(budget_, left, right);
        break;
      case Operator::kLessEqual:
        holds = less(budget_, left, right) || equal(budget_, left, right);
        break;
      case Operator::kGreater:
        holds = less(budget_, right, left);
        break;
      case Operator::kGreaterEqual:
        holds = less(budget_, right, left) || equal(budget_, left, right);
        break;
      case Operator::kIn:
        holds = contains(right, left, budget_);
        break;
      default:
        holds = !contains(right, left, budget_);
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_condition(const Expr& node) {
  if (truth(evaluate(*node.children[0]))) return evaluate(*node.children[1]);
  if (node.children[2]) return evaluate(*node.children[2]);
  return undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::evaluate_item(const Expr& node) {
  const Value object = evaluate(*node.children[0]);
  if (node.children[1]->kind == ExprKind::kSlice) return evaluate_slice(object, *node.children[1]);
  const Value index = evaluate(*node.children[1]);
  at_ = node.offset;
  return item(object, index);
}

Value Interpreter::evaluate_slice(const Value& object, const Expr& slice) {
  SliceBounds bounds;
  std::optional<std::int64_t>* const parts[] = {&bounds.start, &bounds.stop, &bounds.step};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!slice.children[i]) continue;
    const Value value = evaluate(*slice.children[i]);
    at_ = slice.children[i]->offset;
    if (value.is<None>()) continue;
    if (const auto* u = value.as<Undefined>()) fail_undefined(*u);
    std::int64_t number = 0;
    if (!as_integer(value, number)) fail_template("slice indices must be integers or None");
    *parts[i] = number;
  }
  at_ = slice.offset;
  return slice_value(budget_, object, bounds);
}

Arguments Interpreter::evaluate_arguments(const ArgumentList& given) {
  Arguments out;
  for (const Expr* argument : given.positional) out.positional.push_back(evaluate(*argument));
  if (given.spread) {
    const ListPtr items = iterate(evaluate(*given.spread));
    budget_.work(items->items.size() * sizeof(Value));
    out.positional.insert(out.positional.end(), items->items.begin(), items->items.end());
  }
  for (const auto& [name, argument] : given.named)
    out.named.emplace_back(name, evaluate(*argument));
  if (given.spread_named) {
    const Value more = evaluate(*given.spread_named);
    if (!more.dict()) fail_template("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict()->entries()) {
      if (!key.text()) fail_template("keywords must be strings");
      out.named.emplace_back(key.text()->bytes, value);
    }
  }
  return out;
}

Value Interpreter::evaluate_call(const Expr& node) {
  const Expr& callee = *node.children[0];
  if (callee.kind == ExprKind::kAttribute) {
    const Value object = evaluate(*callee.children[0]);
    at_ = callee.offset;
    // The usual method call, without making a value of the method.
    if (const FilterFunction method = find_method(object, callee.text)) {
      Arguments arguments = evaluate_arguments(node.arguments);
      at_ = callee.offset;
      return method(*this, object, arguments);
    }
    const Value function = attribute(object, callee.text);
    if (function.is<Undefined>())
      fail_template("'{}' has no method '{}'", type_name(object), shorten(callee.text));
    Arguments arguments = evaluate_arguments(node.arguments);
    at_ = callee.offset;
    return call(function, arguments);
  }
  const Value function = evaluate(callee);
  if (const auto* u = function.as<Undefined>()) fail_undefined(*u);
  Arguments arguments = evaluate_arguments(node.arguments);
  at_ = node.offset;
  return call(function, arguments);
}

Value Interpreter::call(const Value& function, Arguments& arguments) {
  if (const auto* u = function.as<Undefined>()) fail_undefined(*u);
  if (const auto* loop = function.as<LoopPtr>()) {
    if (!(*loop)->recurse)
      fail_template("the loop must have the 'recursive' marker to be called recursively");
    if (arguments.positional.size() != 1) fail_template("loop() takes one argument");
    const Loop& held = **loop;
    const auto recurse = held.recurse;  // the loop may end meanwhile
    return recurse(*this, arguments.positional[0]);
  }
  const auto* callee = function.as<CallablePtr>();
  if (!callee) fail_template("'{}' object is not callable", type_name(function));
  const CallablePtr held = *callee;
  return held->call(*this, arguments);
}

Value Interpreter::evaluate_filter(const Expr& node, const Value* input) {
  // The innermost filter of a block's chain has no expression: it takes `input`.
  const Expr* inner = node.children[0];
  Value value;
  if (!inner) {
    if (!input) fail_template("a filter without a value");
    value = *input;
  } else if (input && inner->kind == ExprKind::kFilter) {
    value = evaluate_filter(*inner, input);
  } else {
    value = evaluate(*inner);
  }
  const FilterFunction filter = find_filter(node.text);
  if (!filter) {
    at_ = node.offset;
    fail_template("unknown filter '{}'", shorten(node.text));
  }
  Arguments arguments = evaluate_arguments(node.arguments);
  at_ = node.offset;
  return filter(*this, value, arguments);
}

Value Interpreter::apply_filter(std::string_view name, const Value& input, Arguments& arguments) {
  const FilterFunction filter = find_filter(name);
  if (!filter) fail_template("unknown filter '{}'", shorten(name));
  budget_.work(32);
  return filter(*this, input, arguments);
}

Value Interpreter::evaluate_test(const Expr& node) {
  const Value value = evaluate(*node.children[0]);
  const TestFunction test = find_test(node.text);
  if (!test) {
    at_ = node.offset;
    fail_template("unknown test '{}'", shorten(node.text));
  }
  Arguments arguments = evaluate_arguments(node.arguments);
  at_ = node.offset;
  return test(*this, value, arguments);
}

bool Interpreter::apply_test(std::string_view name, const Value& input, Arguments& arguments) {
  const TestFunction test = find_test(name);
  if (!test) fail_template("unknown test '{}'", shorten(name));
  budget_.work(32);
  return test(*this, input, arguments);
}

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (const auto* u = object.as<Undefined>()) fail_undefined(*u);
  if (const auto* ns = object.as<NamespacePtr>()) {
    budget_.work((*ns)->attributes.size());
    for (const auto& [key, value] : (*ns)->attributes)
      if (key == name) return value;
  } else if (const auto* loop = object.as<LoopPtr>()) {
    if (auto value = loop_attribute(*this, *loop, name)) return *std::move(value);
  } else if (const auto* function = object.as<CallablePtr>()) {
    if (name == "name") return string((*function)->name);
    if (name == "arguments") {
      std::vector<Value> names;
      for (const std::string& parameter : (*function)->parameters)
        names.push_back(string(parameter));
      return list(std::move(names), ListKind::kTuple);
    }
  } else if (object.list() && object.list()->is_group && (name == "grouper" || name == "list")) {
    return object.list()->items[name == "list" ? 1 : 0];
  } else if (const FilterFunction method = find_method(object, name)) {
    return callable(name, [method, object](Interpreter& self, Arguments& arguments) {
      return method(self, object, arguments);
    });
  } else if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(name)) return *value;
  }
  return undefined(
      fmt::format("'{} object' has no attribute '{}'", type_name(object), shorten(name)));
}

Value Interpreter::item(const Value& object, const Value& index) {
  if (const auto* u = object.as<Undefined>()) fail_undefined(*u);
  std::int64_t i = 0;
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(index)) return *value;
  } else if (as_integer(index, i)) {
    const List* items = object.list();
    if (items && items->kind != ListKind::kGenerator && items->kind != ListKind::kView) {
      const auto count = static_cast<std::int64_t>(items->items.size());
      if (i < 0) i += count;
      if (i >= 0 && i < count) return items->items[static_cast<std::size_t>(i)];
    } else if (object.text()) {
      const SliceBounds one{.start = i, .stop = i == -1 ? std::nullopt : std::optional(i + 1)};
      Value found = slice_value(budget_, object, one);
      if (!found.text()->bytes.empty()) return found;
    }
    return undefined(fmt::format("'{} object' has no element {}", type_name(object), i));
  }
  if (const Text* name = index.text()) return attribute(object, name->bytes);
  return undefined(fmt::format("'{} object' has no such element", type_name(object)));
}

ListPtr Interpreter::iterate(const Value& value) {
  if (const auto* given = value.as<ListPtr>()) {
    budget_.work((*given)->items.size() * 8);  // for whoever goes through them
    if ((*given)->kind != ListKind::kGenerator) return *given;
    return *list(std::exchange((*given)->items, {})).as<ListPtr>();
  }
  std::vector<Value> items;
  if (const Text* text = value.text()) {
    const std::string_view s = text->bytes;
    for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
      n = code_point_bytes(s, i);
      items.emplace_back(sub_text(budget_, *text, i, i + n));
    }
  } else if (const Dict* dict = value.dict()) {
    for (const auto& [key, ignored] : dict->entries()) items.push_back(key);
  } else if (!value.is<Undefined>()) {
    fail_template("'{}' object is not iterable", type_name(value));
  }
  return *list(std::move(items)).as<ListPtr>();
}

}  // namespace ingot::jinja
