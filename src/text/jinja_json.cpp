#include "text/jinja_json.h"

#include "base/error.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_sort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace ingot::jinja {

namespace {

constexpr int kMaxNesting = 290;

Value convert(Budget& budget, const OrderedJson& json, bool foreign, int depth) {
  if (depth > kMaxNesting) fail_template("data nested deeper than {} levels", kMaxNesting);
  switch (json.type()) {
    case OrderedJson::value_t::null:
      return None{};
    case OrderedJson::value_t::boolean:
      return json.get<bool>();
    case OrderedJson::value_t::number_integer:
      return json.get<std::int64_t>();
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail_template("the number {} is out of range", number);
      return static_cast<std::int64_t>(number);
    }
    case OrderedJson::value_t::number_float:
      return json.get<double>();
    case OrderedJson::value_t::string:
      return make_string(budget, json.get_ref<const std::string&>(), foreign);
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert(budget, item, foreign, depth + 1));
      return make_list(budget, std::move(items));
    }
    case OrderedJson::value_t::object: {
      auto dict = std::make_shared<Dict>(budget);
      for (const auto& [key, item] : json.items())
        dict->set(make_string(budget, key, foreign), convert(budget, item, foreign, depth + 1));
      return DictPtr(std::move(dict));
    }
    default:
      fail_template("data that is no JSON");
  }
}

class Writer {
 public:
  Writer(Budget& budget, const JsonStyle& style) : out_(budget), style_(style) {}
  void write(const Value& value, int depth);
  TextPtr finish() { return out_.finish(); }

 private:
  void write_string(const Text& text);
  void write_list(const List& list, int depth);
  void write_dict(const Dict& dict, int depth);
  void write_key(const Value& key);
  void new_line(int depth);
  void append_escape(char32_t c, bool foreign);

  TextBuilder out_;
  const JsonStyle& style_;
};

void Writer::append_escape(char32_t c, bool foreign) {
  switch (c) {
    case '"':
      return out_.append("\\\"", foreign);
    case '\\':
      return out_.append("\\\\", foreign);
    case '\n':
      return out_.append("\\n", foreign);
    case '\r':
      return out_.append("\\r", foreign);
    case '\t':
      return out_.append("\\t", foreign);
    case '\f':
      return out_.append("\\f", foreign);
    case '\b':
      return out_.append("\\b", foreign);
    default:
      break;
  }
  if (c < 0x10000) return out_.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)), foreign);
  const unsigned v = static_cast<unsigned>(c) - 0x10000;
  out_.append(fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (v >> 10), 0xdc00 + (v & 0x3ff)), foreign);
}

void Writer::write_string(const Text& text) {
  const std::string_view s = text.bytes;
  out_.append("\"");
  std::size_t from = 0;
  std::size_t span = 0;
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const char32_t c = decode_code_point(s, i, n);
    const bool escape = c < 0x20 || c == '"' || c == '\\' || (style_.ensure_ascii && c >= 0x7f);
    if (!escape) continue;
    out_.append(text, from, i);
    while (span < text.foreign.size() && text.foreign[span].end <= i) ++span;
    append_escape(c, span < text.foreign.size() && text.foreign[span].begin <= i);
    from = i + n;
  }
  out_.append(text, from, s.size());
  out_.append("\"");
}

void Writer::new_line(int depth) {
  if (style_.indent < 0) return;
  out_.append("\n");
  for (int i = 0; i < depth; ++i) out_.append(style_.indent_text);
}

void Writer::write_list(const List& list, int depth) {
  if (list.kind != ListKind::kList && list.kind != ListKind::kTuple)
    fail_template("Object of type generator is not JSON serializable");
  if (list.items.empty()) return out_.append("[]");
  out_.append("[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i) out_.append(style_.item_separator);
    new_line(depth + 1);
    write(list.items[i], depth + 1);
  }
  new_line(depth);
  out_.append("]");
}

void Writer::write_key(const Value& key) {
  if (const Text* text = key.text()) return write_string(*text);
  if (key.is<None>()) return out_.append("\"null\"");
  if (const auto* b = key.as<bool>()) return out_.append(*b ? "\"true\"" : "\"false\"");
  if (!key.is_number())
    fail_template("keys must be str, int, float, bool or None, not {}", type_name(key));
  out_.append("\"");
  append_str(out_, key);
  out_.append("\"");
}

void Writer::write_dict(const Dict& dict, int depth) {
  if (dict.entries().empty()) return out_.append("{}");
  std::vector<const Dict::Entry*> order;
  for (const Dict::Entry& entry : dict.entries()) order.push_back(&entry);
  if (style_.sort_keys) {
    const auto sorted = stable_order(order.size(), [&](std::size_t a, std::size_t b) {
      return less(out_.budget(), order[a]->first, order[b]->first);
    });
    std::vector<const Dict::Entry*> in_order;
    for (const std::size_t i : sorted) in_order.push_back(order[i]);
    order = std::move(in_order);
  }
  out_.append("{");
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i) out_.append(style_.item_separator);
    new_line(depth + 1);
    write_key(order[i]->first);
    out_.append(style_.key_separator);
    write(order[i]->second, depth + 1);
  }
  new_line(depth);
  out_.append("}");
}

void Writer::write(const Value& value, int depth) {
  if (depth > kMaxNesting) fail_template("data nested deeper than {} levels", kMaxNesting);
  if (const Text* text = value.text()) return write_string(*text);
  if (value.is<None>()) return out_.append("null");
  if (const auto* b = value.as<bool>()) return out_.append(*b ? "true" : "false");
  if (const auto* d = value.as<double>(); d && !std::isfinite(*d))
    return out_.append(std::isnan(*d) ? "NaN" : *d < 0 ? "-Infinity" : "Infinity");
  if (value.is_number()) return append_str(out_, value);
  if (const List* list = value.list()) return write_list(*list, depth);
  if (const Dict* dict = value.dict()) return write_dict(*dict, depth);
  fail_template("Object of type {} is not JSON serializable", type_name(value));
}

// transformers' tojson: no HTML escaping, ensure_ascii off.
Value filter_tojson(Interpreter& self, const Value& input, Arguments& arguments) {
  const Parameters given(arguments, "tojson",
                         {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  const Value* ensure_ascii = given.get(0);
  const Value* indent = given.get(1);
  // jinja2's own filter takes the indent first; `tojson(4)` can only mean that.
  if (ensure_ascii && ensure_ascii->is<std::int64_t>() && !indent) std::swap(ensure_ascii, indent);
  style.ensure_ascii = ensure_ascii && truth(*ensure_ascii);
  style.sort_keys = given.flag(3, false);
  if (indent && !indent->is<None>()) {
    std::int64_t width = 0;
    if (const Text* text = indent->text()) {
      style.indent_text = text->bytes;
    } else if (as_integer(*indent, width) && width <= 1000) {
      style.indent_text.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    } else {
      fail_template("tojson: indent must be a string or a number up to 1000");
    }
    style.indent = 0;
    style.item_separator = ",";
  }
  if (const Value* separators = given.get(2); separators && !separators->is<None>()) {
    const ListPtr pair = self.iterate(*separators);
    if (pair->items.size() != 2 || !pair->items[0].text() || !pair->items[1].text())
      fail_template("tojson: separators must be two strings");
    style.item_separator = pair->items[0].text()->bytes;
    style.key_separator = pair->items[1].text()->bytes;
  }
  return to_json(self.budget(), input, style);
}

// Not part of transformers; DeepSeek's published templates use it on tool arguments.
Value filter_from_json(Interpreter& self, const Value& input, Arguments& arguments) {
  Parameters(arguments, "from_json", {});
  if (!input.text()) fail_template("from_json wants a string, got {}", type_name(input));
  const Text& text = *input.text();
  self.budget().take(text.bytes.size() * 16);  // nlohmann's tree, while it lives
  self.budget().give_back(text.bytes.size() * 16);
  try {
    return from_json(self.budget(), parse_ordered_json(text.bytes, "from_json"),
                     !text.foreign.empty());
  } catch (const Error& error) {
    fail_template("{}", error.message());
  }
}

constexpr FilterEntry kFilters[] = {{"tojson", filter_tojson}, {"from_json", filter_from_json}};

}  // namespace

Value from_json(Budget& budget, const OrderedJson& json, bool foreign) {
  return convert(budget, json, foreign, 0);
}

TextPtr to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  Writer writer(budget, style);
  writer.write(value, 0);
  return writer.finish();
}

FilterFunction find_json_filter(std::string_view name) {
  for (const FilterEntry& entry : kFilters)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ingot::jinja
