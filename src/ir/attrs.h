#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ingot {

using AttrValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

// The attributes of a node: a few named values, sorted by name. Each op has a plain struct with
//   template <typename Visitor> void visit(Visitor& v) { v("eps", eps); }
// from which read_attrs and write_attrs convert; so printing, parsing, hashing and storing exist
// once. What came later is v.optional(...): written where it is not 0.
class Attrs {
 public:
  void set(std::string_view name, AttrValue value);
  const AttrValue* find(std::string_view name) const;
  const std::vector<std::pair<std::string, AttrValue>>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  std::vector<std::pair<std::string, AttrValue>> entries_;
};

// Throws Error{kBug} when `name` is absent or of another type (an attribute that a struct names is
// always written).
[[noreturn]] void attribute_missing(std::string_view name);

namespace detail {

struct AttrReader {
  const Attrs& attrs;
  int visited = 0;
  template <typename T>
  void operator()(std::string_view name, T& field) {
    const AttrValue* value = attrs.find(name);
    const T* typed = value ? std::get_if<T>(value) : nullptr;
    if (!typed) attribute_missing(name);
    field = *typed;
    ++visited;
  }
  template <typename T>
  void optional(std::string_view name, T& field) {
    if (attrs.find(name)) (*this)(name, field);
  }
};

struct AttrWriter {
  Attrs& attrs;
  template <typename T>
  void operator()(std::string_view name, const T& field) {
    attrs.set(name, AttrValue(field));
  }
  template <typename T>
  void optional(std::string_view name, const T& field) {
    if (field != T()) (*this)(name, field);
  }
};

}  // namespace detail

template <typename Struct>
Struct read_attrs(const Attrs& attrs) {
  Struct result;
  detail::AttrReader reader{attrs};
  result.visit(reader);
  return result;
}

template <typename Struct>
Attrs write_attrs(Struct value) {
  Attrs attrs;
  detail::AttrWriter writer{attrs};
  value.visit(writer);
  return attrs;
}

}  // namespace ingot
