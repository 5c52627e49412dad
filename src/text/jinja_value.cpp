#include "text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace ingot::jinja {

namespace {

constexpr int kMaxNesting = 300;
constexpr std::size_t kEntryBytes = sizeof(Dict::Entry) + 96;  // with the index

// A string that is equal exactly for keys that are equal in Python (1 == 1.0 == True).
void append_key(std::string& out, const Value& key) {
  if (const Text* text = key.text()) {
    out += 's';
    out += text->bytes;
  } else if (std::int64_t i = 0; as_integer(key, i)) {
    out += fmt::format("i{}", i);
  } else if (const auto* d = key.as<double>()) {
    if (*d == std::trunc(*d) && std::abs(*d) < 9e18) {
      out += fmt::format("i{}", static_cast<std::int64_t>(*d));
    } else {
      out += fmt::format("f{}", *d);
    }
  } else if (key.is<None>()) {
    out += 'n';
  } else if (key.is<Undefined>()) {
    out += 'u';
  } else if (const List* list = key.list(); list && list->kind == ListKind::kTuple) {
    out += '(';
    for (const Value& item : list->items) {
      std::string part;
      append_key(part, item);
      out += fmt::format("{}:", part.size());
      out += part;
    }
  } else {
    fail_template("unhashable type: '{}'", type_name(key));
  }
}

std::string key_of(const Value& key) {
  std::string out;
  append_key(out, key);
  return out;
}

}  // namespace

const Value* Dict::find(const Value& key) const {
  const std::string name = key_of(key);
  budget_->work(name.size());
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &entries_[at->second].second;
}

const Value* Dict::find(std::string_view key) const {
  std::string full = "s";
  full += key;
  const auto at = index_.find(full);
  return at == index_.end() ? nullptr : &entries_[at->second].second;
}

void Dict::set(const Value& key, Value value) {
  std::string name = key_of(key);
  const int inner = container_depth(value) + 1;
  if (inner > kMaxNesting) fail_template("values nested deeper than {} levels", kMaxNesting);
  depth = std::max(depth, inner);
  if (const auto at = index_.find(name); at != index_.end()) {
    entries_[at->second].second = std::move(value);
    return;
  }
  const std::size_t bytes = kEntryBytes + name.size();
  budget_->take(bytes);
  charged_ += bytes;
  index_.emplace(std::move(name), entries_.size());
  entries_.emplace_back(key, std::move(value));
}

bool Dict::erase(const Value& key) {
  const auto at = index_.find(key_of(key));
  if (at == index_.end()) return false;
  budget_->work(entries_.size() * 16);
  const std::size_t position = at->second;
  index_.erase(at);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
  for (auto& [name, i] : index_)
    if (i > position) --i;
  return true;
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
}

std::string_view type_name(const Value& value) {
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "NoneType";
  if (value.is<bool>()) return "bool";
  if (value.is<std::int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (value.is<TextPtr>()) return value.text()->html_safe ? "Markup" : "str";
  if (value.is<DictPtr>()) return "dict";
  if (value.is<NamespacePtr>()) return "Namespace";
  if (value.is<LoopPtr>()) return "LoopContext";
  if (const List* list = value.list()) {
    switch (list->kind) {
      case ListKind::kList:
        return "list";
      case ListKind::kTuple:
        return "tuple";
      case ListKind::kGenerator:
        return "generator";
      case ListKind::kView:
        return "dict_view";
      case ListKind::kRange:
        return "range";
    }
  }
  return "function";
}

bool truth(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (const auto* b = value.as<bool>()) return *b;
  if (const auto* i = value.as<std::int64_t>()) return *i != 0;
  if (const auto* d = value.as<double>()) return *d != 0;
  if (const Text* text = value.text()) return !text->bytes.empty();
  if (const List* list = value.list())
    return list->kind == ListKind::kGenerator || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries().empty();
  return true;
}

bool as_integer(const Value& value, std::int64_t& out) {
  if (const auto* b = value.as<bool>()) {
    out = *b ? 1 : 0;
    return true;
  }
  if (const auto* i = value.as<std::int64_t>()) {
    out = *i;
    return true;
  }
  return false;
}

bool as_float(const Value& value, double& out) {
  std::int64_t i = 0;
  if (as_integer(value, i)) {
    out = static_cast<double>(i);
    return true;
  }
  if (const auto* d = value.as<double>()) {
    out = *d;
    return true;
  }
  return false;
}

namespace {

// -1, 0 or 1 as i is below, equal to or above d, exactly (a conversion to double would round); d is
// not NaN.
int compare_exactly(std::int64_t i, double d) {
  if (d >= 9223372036854775808.0) return -1;
  if (d < -9223372036854775808.0) return 1;
  const auto whole = static_cast<std::int64_t>(d);
  if (i != whole) return i < whole ? -1 : 1;
  const double rest = d - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

// The order of two numbers; nothing if one is NaN.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  std::int64_t i = 0;
  std::int64_t j = 0;
  const auto* x = a.as<double>();
  const auto* y = b.as<double>();
  if ((x && std::isnan(*x)) || (y && std::isnan(*y))) return std::nullopt;
  if (x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
  if (x) return as_integer(b, j) ? -compare_exactly(j, *x) : 0;
  if (y) return as_integer(a, i) ? compare_exactly(i, *y) : 0;
  as_integer(a, i);
  as_integer(b, j);
  return i < j ? -1 : i > j ? 1 : 0;
}

void check_nesting(int depth) {
  if (depth > kMaxNesting) fail_template("values nested deeper than {} levels", kMaxNesting);
}

bool equal_lists(Budget& budget, const List& a, const List& b, int depth) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind == ListKind::kGenerator || a.items.size() != b.items.size())
    return false;
  budget.work(a.items.size() * 16);
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!equal(budget, a.items[i], b.items[i], depth + 1)) return false;
  return true;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b, int depth) {
  if (&a == &b) return true;
  if (a.entries().size() != b.entries().size()) return false;
  budget.work(a.entries().size() * 64);
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key);
    if (!other || !equal(budget, value, *other, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool equal(Budget& budget, const Value& a, const Value& b, int depth) {
  check_nesting(depth);
  if (a.text() && b.text()) {
    budget.work(std::min(a.text()->bytes.size(), b.text()->bytes.size()) / 8);
    return a.text()->bytes == b.text()->bytes;
  }
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.list() && b.list()) return equal_lists(budget, *a.list(), *b.list(), depth);
  if (a.dict() && b.dict()) return equal_dicts(budget, *a.dict(), *b.dict(), depth);
  if (a.is<Undefined>()) return b.is<Undefined>();
  if (a.is<None>()) return b.is<None>();
  if (const auto* n = a.as<NamespacePtr>())
    return b.is<NamespacePtr>() && *n == *b.as<NamespacePtr>();
  if (const auto* c = a.as<CallablePtr>()) return b.is<CallablePtr>() && *c == *b.as<CallablePtr>();
  return false;
}

bool less(Budget& budget, const Value& a, const Value& b, int depth) {
  check_nesting(depth);
  if (const auto* u = a.as<Undefined>()) fail_undefined(*u);
  if (const auto* u = b.as<Undefined>()) fail_undefined(*u);
  if (a.text() && b.text()) {
    budget.work(std::min(a.text()->bytes.size(), b.text()->bytes.size()) / 8);
    return a.text()->bytes < b.text()->bytes;
  }
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  const List* x = a.list();
  const List* y = b.list();
  if (x && y && x->kind == y->kind && (x->kind == ListKind::kList || x->kind == ListKind::kTuple)) {
    const std::size_t common = std::min(x->items.size(), y->items.size());
    budget.work(common * 16);
    for (std::size_t i = 0; i < common; ++i)
      if (!equal(budget, x->items[i], y->items[i], depth + 1))
        return less(budget, x->items[i], y->items[i], depth + 1);
    return x->items.size() < y->items.size();
  }
  fail_template("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (const Text* text = container.text()) {
    const Text* part = item.text();
    if (!part)
      fail_template("'in <string>' requires string as left operand, not {}", type_name(item));
    budget.work(text->bytes.size());
    return find_bytes(text->bytes, part->bytes) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  if (const List* list = container.list()) {
    budget.work(list->items.size() * 16);
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& v) { return equal(budget, v, item); });
  }
  if (container.is<Undefined>()) return false;
  fail_template("argument of type '{}' is not iterable", type_name(container));
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::string_view digits_of_exponent = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(digits_of_exponent.data(), digits_of_exponent.data() + digits_of_exponent.size(),
                  exponent);
  // Python switches to the exponent form below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string string_repr(std::string_view s) {
  const bool single = s.find('\'') != s.npos && s.find('"') == s.npos;
  const char quote = single ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const char32_t c = decode_code_point(s, i, n);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out.append(s, i, n);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
    }
  }
  out += quote;
  return out;
}

namespace {

void append_items(TextBuilder& out, const std::vector<Value>& items, int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i) out.append(", ");
    append_repr(out, items[i], depth + 1);
  }
}

void append_list(TextBuilder& out, const List& list, int depth) {
  const bool tuple = list.kind == ListKind::kTuple;
  out.append(tuple ? "(" : "[");
  append_items(out, list.items, depth);
  out.append(!tuple ? "]" : list.items.size() == 1 ? ",)" : ")");
}

}  // namespace

void append_repr(TextBuilder& out, const Value& value, int depth) {
  check_nesting(depth);
  if (const Text* text = value.text()) {
    // At most four bytes for each of the text, while it is built.
    out.budget().take(text->bytes.size() * 4);
    out.budget().give_back(text->bytes.size() * 4);
    std::string repr = string_repr(text->bytes);
    if (text->html_safe) repr = "Markup(" + repr + ")";
    out.append(repr, !text->foreign.empty());
  } else if (const List* list = value.list()) {
    if (list->kind != ListKind::kList && list->kind != ListKind::kTuple)
      fail_template("a {} cannot be printed: apply |list first", type_name(value));
    append_list(out, *list, depth);
  } else if (const Dict* dict = value.dict()) {
    out.append("{");
    bool first = true;
    for (const auto& [key, item] : dict->entries()) {
      if (!first) out.append(", ");
      first = false;
      append_repr(out, key, depth + 1);
      out.append(": ");
      append_repr(out, item, depth + 1);
    }
    out.append("}");
  } else if (value.is<Undefined>()) {
    out.append("Undefined");
  } else {
    append_str(out, value);
  }
}

void append_str(TextBuilder& out, const Value& value) {
  if (const Text* text = value.text()) {
    out.append(*text);
  } else if (value.is<Undefined>()) {
    return;
  } else if (value.is<None>()) {
    out.append("None");
  } else if (const auto* b = value.as<bool>()) {
    out.append(*b ? "True" : "False");
  } else if (const auto* i = value.as<std::int64_t>()) {
    out.append(fmt::format("{}", *i));
  } else if (const auto* d = value.as<double>()) {
    out.append(float_repr(*d));
  } else if (value.list() || value.dict()) {
    append_repr(out, value);
  } else {
    fail_template("a {} cannot be printed", type_name(value));
  }
}

TextPtr to_text(Budget& budget, const Value& value) {
  if (const auto* text = value.as<TextPtr>()) return *text;
  TextBuilder out(budget);
  append_str(out, value);
  return out.finish();
}

void fail_undefined(const Undefined& undefined) {
  throw Failure{undefined.what ? *undefined.what : "a value is undefined"};
}

Value undefined(std::string what) {
  return Undefined{std::make_shared<const std::string>(std::move(what))};
}

Value make_string(Budget& budget, std::string bytes, bool foreign) {
  return make_text(budget, std::move(bytes), foreign);
}

int container_depth(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

Value make_list(Budget& budget, std::vector<Value> items, ListKind kind) {
  auto list = std::make_shared<List>(budget, kind);
  list->charge(items.size() + 2);
  for (const Value& item : items) list->depth = std::max(list->depth, container_depth(item) + 1);
  if (list->depth > kMaxNesting) fail_template("values nested deeper than {} levels", kMaxNesting);
  list->items = std::move(items);
  return list;
}

}  // namespace ingot::jinja
