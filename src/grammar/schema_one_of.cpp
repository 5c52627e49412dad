#include "base/error.h"
#include "grammar/schema_lowering.h"

#include <algorithm>
#include <nlohmann/json.hpp>

// oneOf holds when exactly one branch does. Texts of the branches are joined, so the branches must
// be told apart beforehand: by type, by listed values, or by the properties of objects.
namespace ingot::grammar {

namespace {

constexpr std::size_t kMaxAlternatives = 256;
constexpr int kMaxDepth = 8;

// The values that alone are valid; nothing if there are others.
std::optional<std::vector<OrderedJson>> listed_values(const Keywords& keywords) {
  if (const Sited* constant = find(keywords, "const"))
    return std::vector<OrderedJson>{*constant->value};
  const Sited* list = find(keywords, "enum");
  if (list == nullptr || !list->value->is_array()) return std::nullopt;
  return list->value->get<std::vector<OrderedJson>>();
}

bool is_required(const Keywords& keywords, const std::string& name) {
  const Sited* required = find(keywords, "required");
  return required != nullptr && required->value->is_array() &&
         std::ranges::find(*required->value, OrderedJson(name)) != required->value->end();
}

const OrderedJson* property(const Keywords& keywords, const std::string& name) {
  const Sited* properties = find(keywords, "properties");
  if (properties == nullptr || !properties->value->is_object()) return nullptr;
  const auto it = properties->value->find(name);
  return it == properties->value->end() ? nullptr : &*it;
}

bool is_closed(const Keywords& keywords) {
  const Sited* additional = find(keywords, "additionalProperties");
  return additional != nullptr && *additional->value == OrderedJson(false) &&
         find(keywords, "patternProperties") == nullptr;
}

// Whether we never write a property of this name.
bool never_writes(const Keywords& keywords, const std::string& name) {
  if (property(keywords, name) != nullptr || is_required(keywords, name)) return false;
  if (find(keywords, "propertyNames") != nullptr || find(keywords, "patternProperties") != nullptr)
    return false;
  return is_closed(keywords) || (find(keywords, "additionalProperties") == nullptr &&
                                 find(keywords, "properties") != nullptr);
}

std::vector<std::string> names_required(const Keywords& keywords) {
  std::vector<std::string> names;
  const Sited* required = find(keywords, "required");
  if (required == nullptr || !required->value->is_array()) return names;
  for (const OrderedJson& name : *required->value)
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

}  // namespace

// A schema as the list of its branches' keywords, anyOf and oneOf inside resolved.
std::vector<Keywords> SchemaLowering::alternatives(const Sited& schema, int depth) {
  const Keywords keywords = gather(schema, 1);
  std::vector<Keywords> all;
  for (const char* which : {"anyOf", "oneOf"}) {
    const Sited* branches = find(keywords, which);
    if (branches == nullptr || !branches->value->is_array()) continue;
    if (depth > kMaxDepth) refuse_schema(branches->path, "oneOf of branches nested too deep");
    Keywords beside = keywords;
    beside.erase(which);
    for (std::size_t i = 0; i < branches->value->size(); ++i) {
      const Sited branch{&(*branches->value)[i], fmt::format("{}/{}", branches->path, i)};
      for (Keywords& one : alternatives(branch, depth + 1)) {
        merge(one, beside);
        all.push_back(std::move(one));
        if (all.size() > kMaxAlternatives)
          refuse_schema(branches->path, fmt::format("more than {} branches inside oneOf cannot be "
                                                    "told apart",
                                                    kMaxAlternatives));
      }
    }
    return all;
  }
  all.push_back(keywords);
  return all;
}

void SchemaLowering::check_disjoint(const Sited& one_of) {
  std::vector<std::vector<Keywords>> branches;
  for (std::size_t i = 0; i < one_of.value->size(); ++i)
    branches.push_back(
        alternatives({&(*one_of.value)[i], fmt::format("{}/{}", one_of.path, i)}, 0));
  for (std::size_t i = 0; i < branches.size(); ++i)
    for (std::size_t j = i + 1; j < branches.size(); ++j)
      for (const Keywords& a : branches[i])
        for (const Keywords& b : branches[j]) {
          rules_.deadline().check();
          if (!disjoint(a, b, 0))
            refuse_schema(one_of.path,
                          fmt::format("keyword \"oneOf\": branches {} and {} may both match; give "
                                      "them different types, listed values or a required property "
                                      "that differs, or write anyOf",
                                      i, j));
        }
}

bool SchemaLowering::disjoint(const Keywords& a, const Keywords& b, int depth) {
  const auto values_a = listed_values(a);
  const auto values_b = listed_values(b);
  const std::uint32_t types_a = types_of(a);
  const std::uint32_t types_b = types_of(b);
  if (values_a && values_b)
    return std::ranges::none_of(*values_a, [&](const OrderedJson& value) {
      return std::ranges::find(*values_b, value) != values_b->end();
    });
  if (values_a || values_b) {
    const auto& values = values_a ? *values_a : *values_b;
    const std::uint32_t types = values_a ? types_b : types_a;
    return std::ranges::none_of(
        values, [&](const OrderedJson& value) { return is_of(type_of(value), types); });
  }
  if (!share_type(types_a, types_b)) return true;
  const bool only_objects_shared = (types_a & types_b) == kObjectType &&
                                   find(a, "type") != nullptr && find(b, "type") != nullptr &&
                                   !share_type(types_a & ~kObjectType, types_b & ~kObjectType);
  return only_objects_shared && excludes(a, b, depth) && excludes(b, a, depth);
}

// Whether no object that we write for `a` is valid under `b`.
bool SchemaLowering::excludes(const Keywords& a, const Keywords& b, int depth) {
  for (const std::string& name : names_required(a)) {
    if (is_closed(b) && property(b, name) == nullptr) return true;
    if (property_disjoint(a, b, name, depth)) return true;
  }
  return std::ranges::any_of(names_required(b),
                             [&](const std::string& name) { return never_writes(a, name); });
}

bool SchemaLowering::property_disjoint(const Keywords& a, const Keywords& b,
                                       const std::string& name, int depth) {
  const OrderedJson* in_a = property(a, name);
  const OrderedJson* in_b = property(b, name);
  if (in_a == nullptr || in_b == nullptr || depth > 2) return false;
  const auto all_a = alternatives({in_a, "#.../" + name}, kMaxDepth - 2);
  const auto all_b = alternatives({in_b, "#.../" + name}, kMaxDepth - 2);
  return std::ranges::all_of(all_a, [&](const Keywords& one) {
    return std::ranges::all_of(
        all_b, [&](const Keywords& other) { return disjoint(one, other, depth + 1); });
  });
}

}  // namespace ingot::grammar
