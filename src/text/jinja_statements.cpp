#include "text/jinja_interpreter.h"

#include <algorithm>

namespace ingot::jinja {

namespace {
constexpr std::size_t kScopeBytes = 128;
}

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& owner) : owner_(owner) {
    if (++owner_.depth_ > owner_.budget_.limits().max_depth) {
      --owner_.depth_;
      fail_template("nested or recursing too deep (limit {})", owner_.budget_.limits().max_depth);
    }
  }
  ~Depth() { --owner_.depth_; }

 private:
  Interpreter& owner_;
};

// Enters a scope below `parent`, leaves it again.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& owner, std::shared_ptr<Scope> parent)
      : owner_(owner), before_(std::move(owner.scope_)) {
    owner_.scope_ = std::make_shared<Scope>();
    owner_.scope_->parent = std::move(parent);
  }
  explicit ScopeGuard(Interpreter& owner) : ScopeGuard(owner, owner.scope_) {}
  ~ScopeGuard() { owner_.scope_ = std::move(before_); }

 private:
  Interpreter& owner_;
  std::shared_ptr<Scope> before_;
};

// Collects output apart.
class Interpreter::OutputGuard {
 public:
  explicit OutputGuard(Interpreter& owner)
      : owner_(owner), text_(owner.budget_), before_(owner.output_) {
    owner_.output_ = &text_;
  }
  ~OutputGuard() { owner_.output_ = before_; }
  TextPtr finish() { return text_.finish(); }

 private:
  Interpreter& owner_;
  TextBuilder text_;
  TextBuilder* before_;
};

const Value* Scope::find(int name, Budget& budget) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    budget.work(scope->variables.size());
    for (const auto& [id, value] : scope->variables)
      if (id == name) return &value;
  }
  return nullptr;
}

void Scope::set(int name, Value value) {
  for (auto& [id, old] : variables) {
    if (id != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Program& program, const Limits& limits, std::time_t now)
    : program_(program), budget_(limits), now_(now), loop_name_(program.find_name("loop")) {}

Interpreter::~Interpreter() {
  scope_.reset();
  for (const auto& scope : captured_) scope->variables.clear();
  for (const Value& value : kept_) {
    if (List* list = value.list()) list->items.clear();
    if (Dict* dict = value.dict()) dict->clear();
    if (const auto* ns = value.as<NamespacePtr>()) (*ns)->attributes.clear();
    if (const auto* loop = value.as<LoopPtr>()) {
      (*loop)->items.reset();
      (*loop)->changed.clear();
      (*loop)->recurse = nullptr;
    }
  }
  captured_.clear();
  while (!kept_.empty()) kept_.pop_back();  // newest first: it can only hold older ones
}

TextPtr Interpreter::render(const std::vector<std::pair<std::string, Value>>& variables) {
  scope_ = std::make_shared<Scope>();
  for (const auto& [name, value] : variables)
    if (const int id = program_.find_name(name); id >= 0) scope_->set(id, value);
  const ScopeGuard top(*this);
  OutputGuard output(*this);
  execute(program_.body);
  return output.finish();
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  const Depth depth(*this);
  for (const Statement* statement : block)
    if (const Flow flow = execute(*statement); flow != Flow::kNormal) return flow;
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  budget_.work(32);
  at_ = statement.offset;
  switch (statement.kind) {
    case StatementKind::kData:
      output_->append(*statement.text);
      break;
    case StatementKind::kOutput: {
      const Value value = evaluate(*statement.value);
      at_ = statement.offset;
      append_str(*output_, value);
      break;
    }
    case StatementKind::kIf:
      return run_if(statement);
    case StatementKind::kFor:
      return run_for(statement);
    case StatementKind::kSet:
      assign(statement.target, evaluate(*statement.value));
      break;
    case StatementKind::kSetBlock:
      return run_set_block(statement);
    case StatementKind::kMacro:
      scope_->set(statement.signature.name, make_macro(statement));
      break;
    case StatementKind::kCall:
      run_call_block(statement);
      break;
    case StatementKind::kFilterBlock:
      return run_filter_block(statement);
    case StatementKind::kWith:
      return run_with(statement);
    case StatementKind::kInnerBlock:
      return run_inner_block(statement);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const auto& [test, body] : statement.branches)
    if (!test || truth(evaluate(*test))) return execute(body);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  const Value iterable = evaluate(*statement.value);
  at_ = statement.offset;
  return run_loop(statement, loop_items(statement, iterable), 0);
}

// What the loop runs over: with an inline `if`, only what passes it.
ListPtr Interpreter::loop_items(const Statement& statement, const Value& iterable) {
  ListPtr items = iterate(iterable);
  if (!statement.test) return items;
  std::vector<Value> chosen;
  const ScopeGuard scope(*this);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const Value item = items->items[i];
    assign(statement.target, item);
    if (truth(evaluate(*statement.test))) chosen.push_back(item);
  }
  return *list(std::move(chosen)).as<ListPtr>();
}

Interpreter::Flow Interpreter::run_loop(const Statement& statement, const ListPtr& items,
                                        int depth) {
  auto loop = std::make_shared<Loop>();
  loop->items = items;
  loop->depth0 = depth;
  if (statement.recursive) {
    const std::shared_ptr<Scope> home = scope_;
    loop->recurse = [this, &statement, home, depth](Interpreter&, const Value& inner) -> Value {
      const ScopeGuard scope(*this, home);
      OutputGuard output(*this);
      run_loop(statement, loop_items(statement, inner), depth + 1);
      return output.finish();
    };
  }
  // jinja2 takes `else` when no round reached its end, be it for break or continue.
  bool completed = false;
  for (std::size_t i = 0; i < loop->items->items.size(); ++i) {
    budget_.work(32);
    const ScopeGuard scope(*this);
    loop->index0 = i;
    assign(statement.target, Value(loop->items->items[i]));
    if (loop_name_ >= 0) scope_->set(loop_name_, LoopPtr(loop));
    const Flow flow = execute(statement.body);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (loop.use_count() > 1) {
    budget_.take(kScopeBytes);
    keep_alive(LoopPtr(loop));
  }
  if (completed) return Flow::kNormal;
  const ScopeGuard scope(*this);
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::run_set_block(const Statement& statement) {
  Value value;
  {
    const ScopeGuard scope(*this);
    OutputGuard output(*this);
    if (const Flow flow = execute(statement.body); flow != Flow::kNormal) return flow;
    value = output.finish();
  }
  if (statement.value) value = evaluate_filter(*statement.value, &value);
  assign(statement.target, std::move(value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_filter_block(const Statement& statement) {
  Value value;
  {
    const ScopeGuard scope(*this);
    OutputGuard output(*this);
    if (const Flow flow = execute(statement.body); flow != Flow::kNormal) return flow;
    value = output.finish();
  }
  append_str(*output_, evaluate_filter(*statement.value, &value));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;  // all are evaluated outside the new scope
  for (const auto& [target, value] : statement.assignments) values.push_back(evaluate(*value));
  const ScopeGuard scope(*this);
  for (std::size_t i = 0; i < values.size(); ++i)
    assign(statement.assignments[i].first, std::move(values[i]));
  return execute(statement.body);
}

Interpreter::Flow Interpreter::run_inner_block(const Statement& statement) {
  const ScopeGuard scope(*this);
  return execute(statement.body);
}

void Interpreter::run_call_block(const Statement& statement) {
  const ScopeGuard scope(*this);
  const Expr& call_node = *statement.value;
  const Value function = evaluate(*call_node.children[0]);
  Arguments arguments = evaluate_arguments(call_node.arguments);
  arguments.named.emplace_back("caller", make_macro(statement));
  at_ = call_node.offset;
  append_str(*output_, call(function, arguments));
}

// The macro looks names up where it was defined, at the time of the call.
Value Interpreter::make_macro(const Statement& statement) {
  budget_.take(kScopeBytes + sizeof(Callable));
  captured_.push_back(scope_);
  // A plain pointer: the scope may hold the macro itself, and captured_ keeps the scope.
  Scope* home = scope_.get();
  const Statement* definition = &statement;
  Callable macro;
  macro.name = program_.names[static_cast<std::size_t>(statement.signature.name)];
  for (const int id : statement.signature.parameters)
    macro.parameters.push_back(program_.names[static_cast<std::size_t>(id)]);
  macro.call = [home, definition](Interpreter& self, Arguments& arguments) {
    const std::shared_ptr<Scope> shared(std::shared_ptr<Scope>{}, home);
    return self.call_macro(*definition, shared, arguments);
  };
  auto made = std::make_shared<const Callable>(std::move(macro));
  keep_alive(CallablePtr(made));
  return CallablePtr(std::move(made));
}

Value Interpreter::call_macro(const Statement& statement, const std::shared_ptr<Scope>& home,
                              Arguments& arguments) {
  const Depth depth(*this);
  const std::size_t from = at_;
  Value result;
  {
    const ScopeGuard scope(*this, home);
    bind_parameters(statement, arguments);
    OutputGuard output(*this);
    execute(statement.body);
    result = output.finish();
  }
  at_ = from;
  return result;
}

void Interpreter::bind_parameters(const Statement& statement, Arguments& arguments) {
  const Signature& signature = statement.signature;
  const std::size_t count = signature.parameters.size();
  const std::size_t first_default = count - signature.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    const int id = signature.parameters[i];
    const std::string& name = program_.names[static_cast<std::size_t>(id)];
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& a) { return a.first == name; });
    const bool positional = i < arguments.positional.size();
    if (named != arguments.named.end()) {
      if (positional) fail_template("macro got two values for argument '{}'", name);
      scope_->set(id, std::move(named->second));
      arguments.named.erase(named);
    } else if (positional) {
      scope_->set(id, std::move(arguments.positional[i]));
    } else if (i >= first_default) {
      scope_->set(id, evaluate(*signature.defaults[i - first_default]));
    } else {
      scope_->set(id, undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
  arguments.positional.erase(
      arguments.positional.begin(),
      arguments.positional.begin() +
          static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size())));
  bind_extra(statement, arguments);
}

// caller, varargs and kwargs exist only in macros that mention them.
void Interpreter::bind_extra(const Statement& statement, Arguments& arguments) {
  const Signature& signature = statement.signature;
  const std::string& macro = program_.names[static_cast<std::size_t>(signature.name)];
  if (signature.uses_caller) {
    const auto caller = std::find_if(arguments.named.begin(), arguments.named.end(),
                                     [](const auto& a) { return a.first == "caller"; });
    Value value = undefined("No caller defined");
    if (caller != arguments.named.end()) {
      value = std::move(caller->second);
      arguments.named.erase(caller);
    }
    scope_->set(program_.find_name("caller"), std::move(value));
  }
  if (signature.uses_kwargs) {
    auto rest = std::make_shared<Dict>(budget_);
    for (auto& [name, value] : arguments.named) rest->set(string(name), std::move(value));
    arguments.named.clear();
    scope_->set(program_.find_name("kwargs"), DictPtr(std::move(rest)));
  }
  if (signature.uses_varargs) {
    scope_->set(program_.find_name("varargs"),
                list(std::exchange(arguments.positional, {}), ListKind::kTuple));
  }
  if (!arguments.named.empty())
    fail_template("macro '{}' takes no keyword argument '{}'", macro,
                  arguments.named.front().first);
  if (!arguments.positional.empty())
    fail_template("macro '{}' takes not more than {} argument(s)", macro,
                  signature.parameters.size());
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.is_tuple) return unpack(target, value);
  budget_.work(scope_->variables.size());
  if (target.attribute.empty()) return scope_->set(target.name, std::move(value));
  at_ = target.offset;
  const std::string& name = program_.names[static_cast<std::size_t>(target.name)];
  const Value* holder = scope_->find(target.name, budget_);
  const auto* ns = holder ? holder->as<NamespacePtr>() : nullptr;
  if (!ns) fail_template("cannot assign attribute on non-namespace object '{}'", name);
  budget_.work((*ns)->attributes.size());
  for (auto& [key, old] : (*ns)->attributes) {
    if (key != target.attribute) continue;
    old = std::move(value);
    return;
  }
  budget_.take(sizeof(Value) + target.attribute.size() + 32);
  (*ns)->attributes.emplace_back(target.attribute, std::move(value));
}

void Interpreter::unpack(const Target& target, const Value& value) {
  at_ = target.offset;
  const ListPtr items = iterate(value);
  if (items->items.size() != target.parts.size())
    fail_template("{} values to unpack, expected {}", items->items.size(), target.parts.size());
  for (std::size_t i = 0; i < target.parts.size(); ++i)
    assign(target.parts[i], Value(items->items[i]));
}

}  // namespace ingot::jinja
