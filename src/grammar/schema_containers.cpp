#include "base/error.h"
#include "grammar/regex_parser.h"
#include "grammar/schema_lowering.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ingot::grammar {

ExprId SchemaLowering::lower_array(const Keywords& keywords, const std::string& path) {
  const int limit = rules_.limits().max_repeat;
  const int min = count_of(keywords, "minItems", 0, limit);
  int max = count_of(keywords, "maxItems", kUnbounded, INT32_MAX);
  if (const Sited* unique = find(keywords, "uniqueItems")) {
    if (!unique->value->is_boolean()) refuse_schema(unique->path, "wanted true or false");
    if (unique->value->get<bool>() && (max == kUnbounded || max > 1))
      refuse_schema(unique->path,
                    "keyword \"uniqueItems\" is not supported: it compares parts of "
                    "a value with each other");
  }
  std::vector<ExprId> first;
  const Sited* prefix = find(keywords, "prefixItems");
  if (prefix != nullptr) {
    if (!prefix->value->is_array()) refuse_schema(prefix->path, "wanted a list of schemas");
    for (std::size_t i = 0; i < prefix->value->size(); ++i)
      first.push_back(
          lower({&(*prefix->value)[i], fmt::format("{}/{}", prefix->path, i)}, JsonPlace::kInside));
  }
  const Sited* items = find(keywords, "items");
  if (items != nullptr && items->value->is_array())
    refuse_schema(items->path, "a list of schemas is written as prefixItems");
  // Behind the listed ones only what the schema speaks of.
  const ExprId more = items != nullptr    ? lower(*items, JsonPlace::kInside)
                      : prefix != nullptr ? rules_.never()
                                          : text_.any_value(JsonPlace::kInside);
  const auto listed = static_cast<int>(first.size());
  if (rules_.is_never(more) && (max == kUnbounded || max > listed)) max = listed;
  if (max != kUnbounded && max > limit && max > listed) {
    // Fewer items are valid as well; more than the limit are not counted.
    max = std::max(limit, min);
  }
  if (max != kUnbounded && max < min) refuse_schema(path, "minItems is more than there can be");

  // From behind: what follows `i` items.
  const int counted = max == kUnbounded ? std::max(min, listed) : max;
  const auto item = [&](int i) { return i < listed ? first[static_cast<std::size_t>(i)] : more; };
  const ExprId comma = rules_.sequence({text_.gap(), rules_.text(","), text_.gap()});
  const ExprId close = rules_.sequence({text_.gap(), rules_.text("]")});
  const int last = rules_.new_rule();
  rules_.define(last,
                max == kUnbounded
                    ? rules_.choice({close, rules_.sequence({comma, more, rules_.rule(last)})})
                    : close);
  int rest = last;
  for (int i = counted - 1; i >= 1; --i) {
    const int here = rules_.new_rule();
    const ExprId next = rules_.sequence({comma, item(i), rules_.rule(rest)});
    rules_.define(here, i >= min ? rules_.choice({close, next}) : next);
    rest = here;
  }
  const ExprId open = rules_.sequence({rules_.text("["), text_.gap()});
  std::vector<ExprId> choices;
  if (min == 0) choices.push_back(rules_.sequence({open, rules_.text("]")}));
  if (max != 0) choices.push_back(rules_.sequence({open, item(0), rules_.rule(rest)}));
  return rules_.choice(std::move(choices));
}

ExprId SchemaLowering::member_text(ExprId key, ExprId value) {
  return rules_.sequence({key, text_.gap(), rules_.text(":"), text_.gap(), value});
}

// The named members in the order of the schema, then those that are only required.
std::vector<SchemaLowering::Member> SchemaLowering::members_of(const Keywords& keywords,
                                                               const std::string& path) {
  std::vector<Member> members;
  std::set<std::string> required;
  std::vector<std::string> required_in_order;
  if (const Sited* names = find(keywords, "required")) {
    if (!names->value->is_array()) refuse_schema(names->path, "wanted a list of names");
    for (const OrderedJson& name : *names->value) {
      if (!name.is_string()) refuse_schema(names->path, "wanted a list of names");
      if (required.insert(name.get<std::string>()).second)
        required_in_order.push_back(name.get<std::string>());
    }
  }
  const auto add = [&](const std::string& name, ExprId value) {
    members.push_back({.name = name,
                       .text = member_text(rules_.text(dump_json(OrderedJson(name))), value),
                       .required = required.contains(name)});
  };
  std::set<std::string> named;
  if (const Sited* properties = find(keywords, "properties")) {
    if (!properties->value->is_object()) refuse_schema(properties->path, "wanted an object");
    for (const auto& [name, schema] : properties->value->items()) {
      named.insert(name);
      const ExprId value = lower({&schema, properties->path + "/" + name}, JsonPlace::kInside);
      // Forbidden and not asked for: such a property just never appears.
      if (rules_.is_never(value) && !required.contains(name)) continue;
      add(name, value);
    }
  }
  const Sited* additional = find(keywords, "additionalProperties");
  for (const std::string& name : required_in_order) {
    if (named.contains(name)) continue;
    const ExprId value = additional == nullptr ? text_.any_value(JsonPlace::kInside)
                                               : lower(*additional, JsonPlace::kInside);
    if (rules_.is_never(value))
      refuse_schema(path, fmt::format("property {:?} is required and not allowed", name));
    add(name, value);
  }
  return members;
}

ExprId SchemaLowering::lower_object(const Keywords& keywords, const std::string& path) {
  if (find(keywords, "propertyNames") != nullptr || find(keywords, "patternProperties") != nullptr)
    return lower_dictionary(keywords);
  const Sited* additional = find(keywords, "additionalProperties");
  ObjectShape shape{.members = members_of(keywords, path), .extra = rules_.never()};
  const bool open = additional != nullptr || (find(keywords, "properties") == nullptr &&
                                              find(keywords, "required") == nullptr);
  if (open) {
    const ExprId value = additional == nullptr ? text_.any_value(JsonPlace::kInside)
                                               : lower(*additional, JsonPlace::kInside);
    std::vector<std::string> names;
    if (const Sited* properties = find(keywords, "properties"))
      for (const auto& [name, schema] : properties->value->items()) names.push_back(name);
    for (const Member& member : shape.members) names.push_back(member.name);
    const ExprId key = names.empty() ? text_.string(JsonPlace::kInside) : text_.key_except(names);
    if (!rules_.is_never(value)) shape.extra = member_text(key, value);
  }
  limit_members(shape, keywords);
  return object_text(shape);
}

// Keys by propertyNames or one pattern, nothing named.
ExprId SchemaLowering::lower_dictionary(const Keywords& keywords) {
  const Sited* names = find(keywords, "propertyNames");
  const Sited* patterns = find(keywords, "patternProperties");
  const Sited* additional = find(keywords, "additionalProperties");
  const Sited* named = names != nullptr ? names : patterns;
  const char* keyword = names != nullptr ? "propertyNames" : "patternProperties";
  if (find(keywords, "properties") != nullptr || find(keywords, "required") != nullptr ||
      (names != nullptr && patterns != nullptr))
    refuse_schema(named->path, fmt::format("keyword {:?} is not supported beside properties, "
                                           "required or another of its kind",
                                           keyword));
  ObjectShape shape;
  if (names != nullptr) {
    Keywords key = gather(*names, 1);
    const OrderedJson string_type = "string";
    merge(key, {{"type", {keep(string_type), names->path}}});
    const ExprId value = additional == nullptr ? text_.any_value(JsonPlace::kInside)
                                               : lower(*additional, JsonPlace::kInside);
    shape.extra = member_text(lower_keywords(key, names->path, JsonPlace::kInside), value);
  } else {
    if (!patterns->value->is_object() || patterns->value->size() != 1)
      refuse_schema(patterns->path,
                    "keyword \"patternProperties\" is supported with exactly one pattern");
    if (additional != nullptr && *additional->value != OrderedJson(false))
      refuse_schema(additional->path,
                    "keyword \"additionalProperties\" beside patternProperties must be false");
    const auto pattern = patterns->value->begin();
    const OrderedJson key{{"type", "string"}, {"pattern", pattern.key()}};
    shape.extra = member_text(
        lower({keep(key), patterns->path}, JsonPlace::kInside),
        lower({&pattern.value(), patterns->path + "/" + pattern.key()}, JsonPlace::kInside));
  }
  limit_members(shape, keywords);
  return object_text(shape);
}

void SchemaLowering::limit_members(ObjectShape& shape, const Keywords& keywords) {
  const int limit = rules_.limits().max_repeat;
  shape.min = count_of(keywords, "minProperties", 0, limit);
  shape.max = count_of(keywords, "maxProperties", kUnbounded, INT32_MAX);
  const auto named = static_cast<int>(shape.members.size());
  const auto required = static_cast<int>(
      std::ranges::count_if(shape.members, [](const Member& m) { return m.required; }));
  const bool open = !rules_.is_never(shape.extra);
  // Keys that the schema does not name may come twice, and twice counts once.
  if (open && shape.min > std::max(required, 1))
    refuse_schema(find(keywords, "minProperties")->path,
                  "keyword \"minProperties\" is not supported where the keys are open");
  if (shape.min <= required) shape.min = 0;
  if (!open && shape.max >= named) shape.max = kUnbounded;
  if (shape.max > limit) shape.max = limit;
  if ((!open && shape.min > named) || (shape.max != kUnbounded && shape.max < required))
    refuse_schema(find(keywords, shape.max != kUnbounded && shape.max < required ? "maxProperties"
                                                                                 : "minProperties")
                      ->path,
                  "no object has so many properties");
}

// Chains of rules from behind, one for each number of members written as far as it matters.
ExprId SchemaLowering::object_text(const ObjectShape& shape) {
  const std::size_t n = shape.members.size();
  const bool counts = shape.min > 0 || shape.max != kUnbounded;
  const int levels = !counts ? 0 : shape.max != kUnbounded ? shape.max : shape.min;
  if (static_cast<std::size_t>(levels + 1) * (n + 1) > 200'000)
    fail(ErrorCode::kRequest, "[guided.json_schema] an object has too many properties to count");
  const auto level_after = [&](int level) { return counts ? std::min(level + 1, levels) : 0; };
  const ExprId comma = rules_.sequence({text_.gap(), rules_.text(","), text_.gap()});
  const ExprId close = rules_.sequence({text_.gap(), rules_.text("}")});

  // after[i][c]: c members are written, the next may be member i or a later one.
  std::vector<std::vector<int>> after(n + 1);
  for (auto& row : after)
    for (int c = 0; c <= levels; ++c) row.push_back(rules_.new_rule());
  const auto rule_after = [&](std::size_t i, int c) {
    return rules_.rule(after[i][static_cast<std::size_t>(level_after(c))]);
  };
  // May one more member follow `c` written ones?
  const auto room = [&](int c) { return shape.max == kUnbounded || c < shape.max; };

  std::vector<ExprId> next(static_cast<std::size_t>(levels) + 1);  // from member i on
  bool all_optional = true;
  for (std::size_t i = n + 1; i-- > 0;) {
    if (i < n && shape.members[i].required) all_optional = false;
    for (int c = 0; c <= levels; ++c) {
      const auto level = static_cast<std::size_t>(c);
      if (!room(c)) {
        next[level] = rules_.never();
      } else if (i == n) {
        next[level] = rules_.sequence({shape.extra, rule_after(n, c)});
      } else {
        const ExprId here = rules_.sequence({shape.members[i].text, rule_after(i + 1, c)});
        const int rule = rules_.new_rule();
        rules_.define(rule, shape.members[i].required ? here : rules_.choice({here, next[level]}));
        next[level] = rules_.is_never(rules_.body(rule)) ? rules_.never() : rules_.rule(rule);
      }
      const bool may_close = all_optional && c >= shape.min;
      rules_.define(after[i][level], rules_.choice({may_close ? close : rules_.never(),
                                                    rules_.sequence({comma, next[level]})}));
    }
  }
  const ExprId open = rules_.sequence({rules_.text("{"), text_.gap()});
  const ExprId empty =
      all_optional && shape.min == 0 ? rules_.sequence({open, rules_.text("}")}) : rules_.never();
  return rules_.choice({empty, rules_.sequence({open, next[0]})});
}

}  // namespace ingot::grammar
