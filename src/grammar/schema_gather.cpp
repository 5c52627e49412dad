#include "base/error.h"
#include "grammar/schema_lowering.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ingot::grammar {

namespace {

constexpr int kMaxMergedReferences = 32;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// "%2F" to "/".
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && is_hex(text[i + 1]) && is_hex(text[i + 2])) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "~1" to "/", "~0" to "~".
std::string pointer_decoded(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out += token[++i] == '0' ? '~' : '/';
    } else {
      out += token[i];
    }
  }
  return out;
}

const OrderedJson* step(const OrderedJson& at, const std::string& token) {
  if (at.is_object()) {
    const auto it = at.find(token);
    return it == at.end() ? nullptr : &*it;
  }
  if (!at.is_array() || token.empty() || token.size() > 9 ||
      !std::ranges::all_of(token, [](char c) { return c >= '0' && c <= '9'; }) ||
      (token.size() > 1 && token[0] == '0'))
    return nullptr;
  const auto index = static_cast<std::size_t>(std::stoul(token));
  return index < at.size() ? &at[index] : nullptr;
}

}  // namespace

Sited SchemaLowering::resolve(const Sited& ref) {
  if (!ref.value->is_string()) refuse_schema(ref.path, "$ref is not a text");
  const auto& uri = ref.value->get_ref<const std::string&>();
  if (!uri.starts_with('#'))
    refuse_schema(ref.path, fmt::format("{:?} is not in this schema, and nothing is fetched; "
                                        "wanted #/...",
                                        uri));
  const std::string pointer = percent_decoded(std::string_view(uri).substr(1));
  if (!pointer.empty() && pointer[0] != '/')
    refuse_schema(ref.path, fmt::format("{:?} is not a JSON pointer; wanted #/...", uri));
  const OrderedJson* at = &root_;
  for (std::size_t begin = 0; begin < pointer.size();) {
    std::size_t end = pointer.find('/', begin + 1);
    if (end == std::string::npos) end = pointer.size();
    at = step(*at, pointer_decoded(std::string_view(pointer).substr(begin + 1, end - begin - 1)));
    if (at == nullptr) refuse_schema(ref.path, fmt::format("{:?} leads nowhere", uri));
    begin = end;
  }
  return {at, uri};
}

// Keywords as written, annotations left out; refused ones refuse.
Keywords SchemaLowering::own_keywords(const Sited& schema) {
  if (!schema.value->is_object())
    refuse_schema(schema.path, "a schema must be an object, true or false");
  Keywords keywords;
  for (const auto& [name, value] : schema.value->items()) {
    const KeywordInfo* info = keyword_info(name);
    const std::string path = schema.path + "/" + name;
    if (info == nullptr) {
      if (name.starts_with("x-")) continue;
      refuse_schema(path, fmt::format("{:?} is not a keyword of JSON Schema", name));
    }
    if (info->annotation) continue;
    if (!info->refusal.empty())
      refuse_schema(path, fmt::format("keyword {:?} is not supported: {}", name, info->refusal));
    keywords[name] = {&value, path};
  }
  return keywords;
}

const Sited* SchemaLowering::only_reference(const Keywords& keywords) {
  return keywords.size() == 1 ? find(keywords, "$ref") : nullptr;
}

// Equal values are kept once: a recursive schema that merges comes back to the same place.
const OrderedJson* SchemaLowering::keep(OrderedJson value) {
  std::string text = dump_json(value);
  return &kept_.try_emplace(std::move(text), std::move(value)).first->second;
}

// What holds for a value of the schema, with $ref and allOf resolved.
Keywords SchemaLowering::gather(const Sited& schema, int depth) {
  rules_.deadline().check();
  if (depth > kMaxMergedReferences)
    refuse_schema(schema.path, "references that are merged lead back to themselves, or too deep");
  if (schema.value->is_boolean()) {
    if (schema.value->get<bool>()) return {};
    Keywords nothing;
    nothing["enum"] = {keep(OrderedJson::array()), schema.path};
    return nothing;
  }
  Keywords keywords = own_keywords(schema);
  std::vector<Sited> more;
  if (const Sited* ref = find(keywords, "$ref")) more.push_back(resolve(*ref));
  if (const Sited* all = find(keywords, "allOf")) {
    if (!all->value->is_array() || all->value->empty())
      refuse_schema(all->path, "wanted a list of schemas");
    for (std::size_t i = 0; i < all->value->size(); ++i)
      more.push_back({&(*all->value)[i], fmt::format("{}/{}", all->path, i)});
  }
  keywords.erase("$ref");
  keywords.erase("allOf");
  for (const Sited& part : more) merge(keywords, gather(part, depth + 1));
  return keywords;
}

void SchemaLowering::merge(Keywords& into, const Keywords& more) {
  // additionalProperties speaks of what its own part does not name, so another part must not name
  // more.
  using Side = std::pair<const Keywords*, const Keywords*>;
  for (const auto& [mine, other] : {Side(&into, &more), Side(&more, &into)}) {
    const Sited* additional = find(*mine, "additionalProperties");
    const Sited* others = find(*other, "properties");
    if (additional == nullptr || others == nullptr || !others->value->is_object()) continue;
    const Sited* named = find(*mine, "properties");
    for (const auto& [name, value] : others->value->items())
      if (named == nullptr || !named->value->contains(name))
        refuse_schema(additional->path,
                      fmt::format("keyword \"additionalProperties\" is not supported beside "
                                  "another part that names property {:?}",
                                  name));
  }
  for (const auto& [name, sited] : more) merge_keyword(into, name, sited);
}

namespace {

enum class Bound { kLower, kUpper };

std::optional<Bound> bound_of(std::string_view name) {
  if (name.starts_with("min") || name == "exclusiveMinimum") return Bound::kLower;
  if (name.starts_with("max") || name == "exclusiveMaximum") return Bound::kUpper;
  return std::nullopt;
}

}  // namespace

void SchemaLowering::merge_keyword(Keywords& into, const std::string& name, const Sited& more) {
  const auto [it, added] = into.try_emplace(name, more);
  if (added || *it->second.value == *more.value) return;
  const OrderedJson& a = *it->second.value;
  const OrderedJson& b = *more.value;
  if (const auto bound = bound_of(name); bound && a.is_number() && b.is_number()) {
    if ((b > a) == (*bound == Bound::kLower)) it->second = more;
  } else if (name == "required" && a.is_array() && b.is_array()) {
    OrderedJson both = a;
    both.insert(both.end(), b.begin(), b.end());
    it->second.value = keep(std::move(both));
  } else if (name == "properties" && a.is_object() && b.is_object()) {
    OrderedJson both = a;
    for (const auto& [key, value] : b.items()) {
      if (!both.contains(key)) {
        both[key] = value;
      } else if (both[key] != value) {
        both[key] = OrderedJson{{"allOf", OrderedJson::array({both[key], value})}};
      }
    }
    it->second.value = keep(std::move(both));
  } else if (name == "enum" && a.is_array() && b.is_array()) {
    OrderedJson both = OrderedJson::array();
    for (const OrderedJson& value : a)
      if (std::ranges::find(b, value) != b.end()) both.push_back(value);
    it->second.value = keep(std::move(both));
  } else if (name == "type") {
    Keywords other{{"type", more}};
    const std::uint32_t mine = types_of(into);
    const std::uint32_t theirs = types_of(other);
    OrderedJson both = OrderedJson::array();
    for (const char* type : {"null", "boolean", "integer", "number", "string", "array", "object"}) {
      Keywords one;
      const OrderedJson word = type;
      one["type"] = {&word, more.path};
      if (is_of(types_of(one), mine) && is_of(types_of(one), theirs)) both.push_back(type);
    }
    if (both.empty()) refuse_schema(more.path, "no type satisfies all parts");
    it->second.value = keep(std::move(both));
  } else {
    refuse_schema(more.path, fmt::format("keyword {:?} in several parts that hold together is not "
                                         "supported",
                                         name));
  }
}

}  // namespace ingot::grammar
