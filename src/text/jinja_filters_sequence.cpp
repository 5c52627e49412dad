#include "text/jinja_interpreter.h"
#include "text/jinja_sort.h"

#include <algorithm>
#include <bit>

// Filters on lists, dicts and strings as sequences. Semantics: jinja2 3.1 filters.py.
namespace ingot::jinja {

namespace {

TextPtr text_of(Interpreter& self, const Value& value) {
  return to_text(self.budget(), value);
}

// The function behind `attribute=`: "a.b.0" looks up item by item; no attribute is the value.
class AttributeGetter {
 public:
  AttributeGetter(Interpreter& self, const Value* attribute) : self_(self) {
    if (!attribute || attribute->is<None>()) return;
    if (!attribute->text()) {
      parts_.push_back(*attribute);
      return;
    }
    const std::string& path = attribute->text()->bytes;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      const std::string part = path.substr(begin, end - begin);
      const bool digits = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string::npos;
      parts_.push_back(digits ? Value(std::int64_t{std::stoll(part)}) : self.string(part));
      begin = end + 1;
    }
  }
  void set_default(const Value* value) {
    if (value && !value->is<None>()) default_ = *value;
  }
  void fold_case() { fold_case_ = true; }

  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      item = self_.item(item, part);
      if (item.is<Undefined>() && !default_.is<Undefined>()) item = default_;
    }
    if (fold_case_ && item.text())
      return change_case(self_.budget(), *item.text(), LetterCase::kLower);
    return item;
  }

 private:
  Interpreter& self_;
  std::vector<Value> parts_;
  Value default_;
  bool fold_case_ = false;
};

void charge_sort(Interpreter& self, std::size_t count) {
  self.budget().work(count * 32 * static_cast<std::size_t>(std::bit_width(count)));
}

// Stable sort by keys; reverse keeps the order of equal elements, as Python's.
std::vector<Value> sort_by(Interpreter& self, const std::vector<Value>& items,
                           const std::vector<Value>& keys, bool reverse) {
  charge_sort(self, items.size());
  const std::vector<std::size_t> order =
      stable_order(items.size(), [&](std::size_t a, std::size_t b) {
        self.budget().work(16);
        return reverse ? less(self.budget(), keys[b], keys[a])
                       : less(self.budget(), keys[a], keys[b]);
      });
  std::vector<Value> out;
  out.reserve(items.size());
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

Value filter_length(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "length", {});
  const auto count = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  if (input.is<Undefined>()) return count(0);
  if (const Text* text = input.text()) {
    self.budget().work(text->bytes.size());
    return count(count_code_points(text->bytes));
  }
  if (const Dict* dict = input.dict()) return count(dict->entries().size());
  const List* list = input.list();
  if (!list || list->kind == ListKind::kGenerator)
    fail_template("object of type '{}' has no len()", type_name(input));
  return count(list->items.size());
}

Value filter_list(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "list", {});
  return self.list(self.iterate(input)->items);
}

Value filter_first(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "first", {});
  const ListPtr items = self.iterate(input);
  if (items->items.empty()) return undefined("No first item, sequence was empty.");
  return items->items.front();
}

Value filter_last(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "last", {});
  if (input.list() && input.list()->kind == ListKind::kGenerator)
    fail_template("'generator' object is not reversible: apply |list before |last");
  const ListPtr items = self.iterate(input);
  if (items->items.empty()) return undefined("No last item, sequence was empty.");
  return items->items.back();
}

Value filter_reverse(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "reverse", {});
  if (input.text()) return slice_value(self.budget(), input, {.step = -1});
  std::vector<Value> items = self.iterate(input)->items;
  std::reverse(items.begin(), items.end());
  return self.list(std::move(items), ListKind::kGenerator);
}

Value filter_join(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "join", {"d", "attribute"});
  const TextPtr separator =
      given.get(0) ? text_of(self, *given.get(0)) : make_text(self.budget(), {});
  const AttributeGetter getter(self, given.get(1));
  const ListPtr items = self.iterate(input);
  TextBuilder out(self.budget());
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i) out.append(*separator);
    append_str(out, getter(items->items[i]));
  }
  return out.finish();
}

Value filter_default(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "default", {"default_value", "boolean"});
  const bool replace = input.is<Undefined>() || (given.flag(1, false) && !truth(input));
  if (!replace) return input;
  return given.get(0) ? *given.get(0) : self.string({});
}

Value filter_items(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "items", {});
  if (input.is<Undefined>()) return self.list({}, ListKind::kGenerator);
  if (!input.dict()) fail_template("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict()->entries())
    pairs.push_back(self.list({key, value}, ListKind::kTuple));
  return self.list(std::move(pairs), ListKind::kGenerator);
}

Value filter_dictsort(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  if (const auto* u = input.as<Undefined>()) fail_undefined(*u);
  if (!input.dict()) fail_template("dictsort wants a dict, got {}", type_name(input));
  const std::string by = given.text(1) ? given.text(1)->bytes : "key";
  if (by != "key" && by != "value")
    fail_template("You can only sort by either \"key\" or \"value\"");
  AttributeGetter fold(self, nullptr);
  if (!given.flag(0, false)) fold.fold_case();
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, value] : input.dict()->entries()) {
    pairs.push_back(self.list({key, value}, ListKind::kTuple));
    keys.push_back(fold(by == "key" ? key : value));
  }
  return self.list(sort_by(self, pairs, keys, given.flag(2, false)));
}

Value filter_sort(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributeGetter> getters;
  const auto add_getter = [&](const Value* attribute) {
    getters.emplace_back(self, attribute);
    if (!given.flag(1, false)) getters.back().fold_case();
  };
  if (given.get(2) && given.get(2)->text()) {
    const std::string& all = given.get(2)->text()->bytes;
    for (std::size_t begin = 0; begin <= all.size();) {
      const std::size_t end = std::min(all.find(',', begin), all.size());
      const Value part = self.string(all.substr(begin, end - begin));
      add_getter(&part);
      begin = end + 1;
    }
  } else {
    add_getter(given.get(2));
  }
  const ListPtr items = self.iterate(input);
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    std::vector<Value> key;
    for (const AttributeGetter& getter : getters) key.push_back(getter(item));
    keys.push_back(self.list(std::move(key)));
  }
  return self.list(sort_by(self, items->items, keys, given.flag(0, false)));
}

Value filter_unique(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "unique", {"case_sensitive", "attribute"});
  AttributeGetter getter(self, given.get(1));
  if (!given.flag(0, false)) getter.fold_case();
  Dict seen(self.budget());
  std::vector<Value> out;
  const ListPtr items = self.iterate(input);
  for (const Value& item : items->items) {
    const Value key = getter(item);
    if (seen.find(key)) continue;
    seen.set(key, true);
    out.push_back(item);
  }
  return self.list(std::move(out), ListKind::kGenerator);
}

template <bool maximum>
Value filter_extreme(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, maximum ? "max" : "min", {"case_sensitive", "attribute"});
  AttributeGetter getter(self, given.get(1));
  if (!given.flag(0, false)) getter.fold_case();
  const ListPtr items = self.iterate(input);
  if (items->items.empty()) return undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  Value best_key = getter(items->items[0]);
  for (std::size_t i = 1; i < items->items.size(); ++i) {
    Value key = getter(items->items[i]);
    if (!(maximum ? less(self.budget(), best_key, key) : less(self.budget(), key, best_key)))
      continue;
    best = i;
    best_key = std::move(key);
  }
  return items->items[best];
}

Value filter_sum(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "sum", {"attribute", "start"});
  const AttributeGetter getter(self, given.get(0));
  Value sum = given.get(1) ? *given.get(1) : Value(std::int64_t{0});
  const ListPtr items = self.iterate(input);
  for (const Value& item : items->items) sum = add(self.budget(), sum, getter(item));
  return sum;
}

Value filter_map(Interpreter& self, const Value& input, Arguments& arguments) {
  std::vector<Value> out;
  if (!truth(input)) return self.list({}, ListKind::kGenerator);  // None, too, as jinja2 has it
  const ListPtr items = self.iterate(input);
  if (arguments.positional.empty()) {
    const Parameters given(arguments, "map", {"attribute", "default"});
    given.required(0);
    AttributeGetter getter(self, given.get(0));
    getter.set_default(given.get(1));
    for (const Value& item : items->items) out.push_back(getter(item));
    return self.list(std::move(out), ListKind::kGenerator);
  }
  const Text* name = arguments.positional[0].text();
  if (!name) fail_template("map wants the name of a filter");
  for (const Value& item : items->items) {
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
    out.push_back(self.apply_filter(name->bytes, item, rest));
  }
  return self.list(std::move(out), ListKind::kGenerator);
}

struct Selection {
  bool by_attribute = false;
  bool keep = true;
};

template <Selection selection>
Value filter_select(Interpreter& self, const Value& input, Arguments& arguments) {
  const std::size_t offset = selection.by_attribute ? 1 : 0;
  if (!truth(input)) return self.list({}, ListKind::kGenerator);
  if (arguments.positional.size() < offset)
    fail_template("selectattr and rejectattr want the name of an attribute");
  const AttributeGetter getter(self, offset ? &arguments.positional[0] : nullptr);
  const Text* test = nullptr;
  if (arguments.positional.size() > offset) {
    test = arguments.positional[offset].text();
    if (!test) fail_template("a test is named by a string");
  }
  const ListPtr items = self.iterate(input);
  std::vector<Value> out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const Value item = items->items[i];
    const Value looked_at = getter(item);
    bool holds = false;
    if (test) {
      Arguments rest;
      rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(offset) + 1,
                             arguments.positional.end());
      rest.named = arguments.named;
      holds = self.apply_test(test->bytes, looked_at, rest);
    } else {
      holds = truth(looked_at);
    }
    if (holds == selection.keep) out.push_back(item);
  }
  return self.list(std::move(out), ListKind::kGenerator);
}

Value filter_groupby(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "groupby", {"attribute", "default", "case_sensitive"});
  given.required(0);
  AttributeGetter plain(self, given.get(0));
  plain.set_default(given.get(1));
  AttributeGetter folded = plain;
  if (!given.flag(2, false)) folded.fold_case();
  const ListPtr items = self.iterate(input);
  std::vector<Value> keys;
  for (const Value& item : items->items) keys.push_back(folded(item));
  const std::vector<Value> sorted = sort_by(self, items->items, keys, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < sorted.size();) {
    const Value key = folded(sorted[begin]);
    std::size_t end = begin + 1;
    while (end < sorted.size() && equal(self.budget(), folded(sorted[end]), key)) ++end;
    std::vector<Value> members(sorted.begin() + static_cast<std::ptrdiff_t>(begin),
                               sorted.begin() + static_cast<std::ptrdiff_t>(end));
    groups.push_back(
        self.list({plain(sorted[begin]), self.list(std::move(members))}, ListKind::kTuple));
    groups.back().list()->is_group = true;
    begin = end;
  }
  return self.list(std::move(groups));
}

Value filter_batch(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "batch", {"linecount", "fill_with"});
  given.required(0);
  const std::int64_t size = given.integer(0, 1);
  if (size < 1 || size > self.budget().limits().max_range)
    fail_template("batch: a size of {} is out of range", size);
  std::vector<Value> out;
  std::vector<Value> row;
  const ListPtr items = self.iterate(input);
  for (const Value& item : items->items) {
    if (row.size() == static_cast<std::size_t>(size))
      out.push_back(self.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    const Value* fill = given.get(1);
    if (fill && !fill->is<None>()) row.resize(static_cast<std::size_t>(size), *fill);
    out.push_back(self.list(std::move(row)));
  }
  return self.list(std::move(out), ListKind::kGenerator);
}

Value filter_slice(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "slice", {"slices", "fill_with"});
  given.required(0);
  const std::int64_t slices = given.integer(0, 1);
  if (slices < 1 || slices > self.budget().limits().max_range)
    fail_template("slice: {} slices are out of range", slices);
  const ListPtr items = self.iterate(input);
  const auto count = static_cast<std::int64_t>(items->items.size());
  std::vector<Value> out;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const bool extra = i < count % slices;
    const std::int64_t end = at + count / slices + (extra ? 1 : 0);
    std::vector<Value> part(items->items.begin() + at, items->items.begin() + end);
    if (!extra && given.get(1) && !given.get(1)->is<None>()) part.push_back(*given.get(1));
    out.push_back(self.list(std::move(part)));
    at = end;
  }
  return self.list(std::move(out), ListKind::kGenerator);
}

Value filter_attr(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "attr", {"name"});
  const Text& name = given.required_text(0);
  if (input.dict() && !find_method(input, name.bytes))
    return undefined(fmt::format("'dict object' has no attribute '{}'", name.bytes.substr(0, 80)));
  return self.attribute(input, name.bytes);
}

constexpr FilterEntry kFilters[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"reverse", filter_reverse},
    {"join", filter_join},
    {"default", filter_default},
    {"d", filter_default},
    {"items", filter_items},
    {"dictsort", filter_dictsort},
    {"sort", filter_sort},
    {"unique", filter_unique},
    {"min", filter_extreme<false>},
    {"max", filter_extreme<true>},
    {"sum", filter_sum},
    {"map", filter_map},
    {"select", filter_select<Selection{.by_attribute = false, .keep = true}>},
    {"reject", filter_select<Selection{.by_attribute = false, .keep = false}>},
    {"selectattr", filter_select<Selection{.by_attribute = true, .keep = true}>},
    {"rejectattr", filter_select<Selection{.by_attribute = true, .keep = false}>},
    {"groupby", filter_groupby},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"attr", filter_attr},
};

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  for (const FilterEntry& entry : kFilters)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ingot::jinja
