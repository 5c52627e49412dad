#include "text/jinja_interpreter.h"

#include <algorithm>

// Methods of list, tuple and dict. Those that change the receiver are here although transformers'
// sandbox refuses them: published templates use append and pop. A receiver that changes is kept
// alive, because it may come to hold itself.
namespace ingot::jinja {

namespace {

List& self_list(Interpreter& self, const Value& receiver) {
  List& list = *receiver.list();
  if (!std::exchange(list.kept, true)) self.keep_alive(receiver);
  return list;
}

Dict& self_dict(Interpreter& self, const Value& receiver) {
  Dict& dict = *receiver.dict();
  if (!std::exchange(dict.kept, true)) self.keep_alive(receiver);
  return dict;
}

Value list_append(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "append", {"object"});
  List& list = self_list(self, receiver);
  list.charge(1);
  list.items.push_back(given.required(0));
  return None{};
}

Value list_extend(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "extend", {"iterable"});
  const std::vector<Value> more = self.iterate(given.required(0))->items;
  List& list = self_list(self, receiver);
  list.charge(more.size());
  list.items.insert(list.items.end(), more.begin(), more.end());
  return None{};
}

Value list_insert(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "insert", {"index", "object"});
  List& list = self_list(self, receiver);
  list.charge(1);
  self.budget().work(list.items.size() * sizeof(Value));
  const auto count = static_cast<std::int64_t>(list.items.size());
  std::int64_t at = given.integer(0, 0);
  if (at < 0) at = at < -count ? 0 : at + count;
  list.items.insert(list.items.begin() + std::min(at, count), given.required(1));
  return None{};
}

Value list_pop(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "pop", {"index"});
  List& list = self_list(self, receiver);
  self.budget().work(list.items.size() * sizeof(Value));
  const auto count = static_cast<std::int64_t>(list.items.size());
  std::int64_t at = given.integer(0, -1);
  if (at < 0) at += count;
  if (count == 0) fail_template("pop from empty list");
  if (at < 0 || at >= count) fail_template("pop index out of range");
  const Value taken = list.items[static_cast<std::size_t>(at)];
  list.items.erase(list.items.begin() + at);
  return taken;
}

Value list_clear(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "clear", {});
  self_list(self, receiver).items.clear();
  return None{};
}

Value list_reverse(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "reverse", {});
  List& list = self_list(self, receiver);
  self.budget().work(list.items.size());
  std::reverse(list.items.begin(), list.items.end());
  return None{};
}

Value list_copy(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "copy", {});
  return self.list(receiver.list()->items);
}

std::vector<Value>::iterator find_item(Interpreter& self, const Value& receiver,
                                       const Value& wanted) {
  std::vector<Value>& items = receiver.list()->items;
  self.budget().work(items.size() * 16);
  return std::find_if(items.begin(), items.end(),
                      [&](const Value& item) { return equal(self.budget(), item, wanted); });
}

Value list_remove(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "remove", {"value"});
  List& list = self_list(self, receiver);
  const auto at = find_item(self, receiver, given.required(0));
  if (at == list.items.end()) fail_template("list.remove(x): x not in list");
  list.items.erase(at);
  return None{};
}

Value list_index(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "index", {"value"});
  const auto at = find_item(self, receiver, given.required(0));
  if (at == receiver.list()->items.end()) fail_template("the value is not in the list");
  return static_cast<std::int64_t>(at - receiver.list()->items.begin());
}

Value list_count(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "count", {"value"});
  const std::vector<Value>& items = receiver.list()->items;
  self.budget().work(items.size() * 16);
  const Value& wanted = given.required(0);
  return static_cast<std::int64_t>(
      std::count_if(items.begin(), items.end(),
                    [&](const Value& item) { return equal(self.budget(), item, wanted); }));
}

Value dict_get(Interpreter&, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "get", {"key", "default"});
  if (const Value* found = receiver.dict()->find(given.required(0))) return *found;
  return given.get(1) ? *given.get(1) : Value(None{});
}

Value dict_items(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "items", {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : receiver.dict()->entries())
    pairs.push_back(self.list({key, value}, ListKind::kTuple));
  return self.list(std::move(pairs), ListKind::kView);
}

Value dict_keys(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "keys", {});
  std::vector<Value> keys;
  for (const auto& [key, value] : receiver.dict()->entries()) keys.push_back(key);
  return self.list(std::move(keys), ListKind::kView);
}

Value dict_values(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "values", {});
  std::vector<Value> values;
  for (const auto& [key, value] : receiver.dict()->entries()) values.push_back(value);
  return self.list(std::move(values), ListKind::kView);
}

Value dict_copy(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "copy", {});
  auto copy = std::make_shared<Dict>(self.budget());
  for (const auto& [key, value] : receiver.dict()->entries()) copy->set(key, value);
  return DictPtr(copy);
}

Value dict_pop(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "pop", {"key", "default"});
  Dict& dict = self_dict(self, receiver);
  if (const Value* found = dict.find(given.required(0))) {
    const Value taken = *found;
    dict.erase(given.required(0));
    return taken;
  }
  if (!given.get(1)) fail_template("pop(): the key is not in the dict");
  return *given.get(1);
}

Value dict_update(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Dict& dict = self_dict(self, receiver);
  if (arguments.positional.size() > 1) fail_template("update() takes at most one dict");
  if (!arguments.positional.empty()) {
    const Dict* other = arguments.positional[0].dict();
    if (!other) fail_template("update() wants a dict");
    const std::vector<Dict::Entry> entries = other->entries();
    for (const auto& [key, value] : entries) dict.set(key, value);
  }
  for (const auto& [name, value] : arguments.named) dict.set(self.string(name), value);
  return None{};
}

Value dict_setdefault(Interpreter& self, const Value& receiver, Arguments& arguments) {
  const Parameters given(arguments, "setdefault", {"key", "default"});
  Dict& dict = self_dict(self, receiver);
  if (const Value* found = dict.find(given.required(0))) return *found;
  const Value value = given.get(1) ? *given.get(1) : Value(None{});
  dict.set(given.required(0), value);
  return value;
}

Value dict_clear(Interpreter& self, const Value& receiver, Arguments& arguments) {
  Parameters(arguments, "clear", {});
  self_dict(self, receiver).clear();
  return None{};
}

constexpr FilterEntry kTupleMethods[] = {{"index", list_index}, {"count", list_count}};

constexpr FilterEntry kListMethods[] = {
    {"append", list_append}, {"extend", list_extend},   {"insert", list_insert},
    {"pop", list_pop},       {"clear", list_clear},     {"remove", list_remove},
    {"copy", list_copy},     {"reverse", list_reverse}, {"index", list_index},
    {"count", list_count},
};

constexpr FilterEntry kDictMethods[] = {
    {"get", dict_get},       {"items", dict_items},
    {"keys", dict_keys},     {"values", dict_values},
    {"copy", dict_copy},     {"pop", dict_pop},
    {"update", dict_update}, {"setdefault", dict_setdefault},
    {"clear", dict_clear},
};

template <std::size_t n>
FilterFunction look_up(const FilterEntry (&table)[n], std::string_view name) {
  for (const FilterEntry& entry : table)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace

FilterFunction find_container_method(const Value& receiver, std::string_view name) {
  if (receiver.dict()) return look_up(kDictMethods, name);
  const List* list = receiver.list();
  if (list && list->kind == ListKind::kList) return look_up(kListMethods, name);
  if (list && list->kind == ListKind::kTuple) return look_up(kTupleMethods, name);
  return nullptr;
}

}  // namespace ingot::jinja
