#include "grammar/schema_lowering.h"

#include "base/error.h"
#include "grammar/number_range.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ingot::grammar {

namespace {

constexpr std::uint32_t kScalarTypes[] = {kStringType, kNumberType, kIntegerType, kBooleanType,
                                          kNullType,   kObjectType, kArrayType};

}  // namespace

int SchemaLowering::lower_root() {
  const Sited whole{&root_, "#"};
  const int root = rules_.new_rule();
  reference_rules_[{&root_, JsonPlace::kRoot}] = root;
  pending_.push_back({root, whole, JsonPlace::kRoot});
  while (!pending_.empty()) {
    const PendingRule next = pending_.front();
    pending_.pop_front();
    rules_.define(next.rule, lower_keywords(gather(next.schema, 0), next.schema.path, next.place));
  }
  return root;
}

ExprId SchemaLowering::lower(const Sited& schema, JsonPlace place) {
  if (schema.value->is_boolean())
    return schema.value->get<bool>() ? text_.any_value(place) : rules_.never();
  const Keywords own = own_keywords(schema);
  if (find(own, "$ref") == nullptr && find(own, "allOf") == nullptr)
    return lower_keywords(own, schema.path, place);
  // What refers to others may come back to itself.
  const Sited* reference = only_reference(own);
  const Sited target = reference != nullptr ? resolve(*reference) : schema;
  const auto [it, added] = reference_rules_.try_emplace({target.value, place}, 0);
  if (added) {
    it->second = rules_.new_rule();
    pending_.push_back({it->second, target, place});
  }
  return rules_.rule(it->second);
}

ExprId SchemaLowering::lower_keywords(const Keywords& keywords, const std::string& path,
                                      JsonPlace place) {
  if (find(keywords, "const") != nullptr || find(keywords, "enum") != nullptr)
    return lower_values(keywords, path);
  for (const char* which : {"anyOf", "oneOf"})
    if (find(keywords, which) != nullptr) return lower_any_of(keywords, which, place);
  std::uint32_t types = types_of(keywords);
  if (find(keywords, "type") == nullptr) {
    // Keywords without a type mean their own: fewer texts, all of them valid.
    std::uint32_t implied = 0;
    for (const auto& [name, sited] : keywords) implied |= keyword_info(name)->types;
    if (implied == 0) return text_.any_value(place);
    types = implied;
  }
  if ((types & kNumberType) != 0) types &= ~std::uint32_t{kIntegerType};
  std::vector<ExprId> choices;
  for (const std::uint32_t type : kScalarTypes)
    if ((types & type) != 0) choices.push_back(lower_type(type, keywords, path, place));
  return rules_.choice(std::move(choices));
}

ExprId SchemaLowering::lower_type(std::uint32_t type, const Keywords& keywords,
                                  const std::string& path, JsonPlace place) {
  switch (type) {
    case kNullType:
      return text_.null();
    case kBooleanType:
      return text_.boolean();
    case kStringType:
      return lower_string(keywords, path, place);
    case kArrayType:
      return lower_array(keywords, path);
    case kObjectType:
      return lower_object(keywords, path);
    default:
      return lower_number(type, keywords, path);
  }
}

// The listed values that are of an allowed type.
ExprId SchemaLowering::lower_values(const Keywords& keywords, const std::string& path) {
  for (const auto& [name, sited] : keywords)
    if (name != "const" && name != "enum" && name != "type")
      refuse_schema(sited.path,
                    fmt::format("keyword {:?} beside const or enum is not supported", name));
  std::vector<const OrderedJson*> values;
  const Sited* list = find(keywords, "enum");
  const Sited* constant = find(keywords, "const");
  if (list != nullptr) {
    if (!list->value->is_array()) refuse_schema(list->path, "wanted a list");
    if (list->value->size() > rules_.limits().max_choices)
      refuse_schema(list->path, fmt::format("{} values, at most {} are supported",
                                            list->value->size(), rules_.limits().max_choices));
    for (const OrderedJson& value : *list->value) values.push_back(&value);
  }
  if (constant != nullptr) {
    if (list == nullptr) values.push_back(constant->value);
    std::erase_if(values, [&](const OrderedJson* value) { return *value != *constant->value; });
  }
  const std::uint32_t types = types_of(keywords);
  std::vector<std::string> texts;
  for (const OrderedJson* value : values)
    if (is_of(type_of(*value), types)) texts.push_back(dump_json(*value));
  if (texts.empty() && list != nullptr && !list->value->empty())
    refuse_schema(path, "none of the listed values is allowed");
  return rules_.any_of(std::move(texts));
}

// Each branch together with what holds beside it.
ExprId SchemaLowering::lower_any_of(const Keywords& keywords, std::string_view which,
                                    JsonPlace place) {
  const Sited& branches = *find(keywords, which);
  if (!branches.value->is_array() || branches.value->empty())
    refuse_schema(branches.path, "wanted a list of schemas");
  if (branches.value->size() > rules_.limits().max_choices)
    refuse_schema(branches.path, fmt::format("more than {} branches", rules_.limits().max_choices));
  if (which == "oneOf") check_disjoint(branches);
  Keywords beside = keywords;
  beside.erase(std::string(which));
  std::vector<ExprId> choices;
  for (std::size_t i = 0; i < branches.value->size(); ++i) {
    const Sited branch{&(*branches.value)[i], fmt::format("{}/{}", branches.path, i)};
    const bool last_chance = i + 1 == branches.value->size() && choices.empty();
    if (beside.empty()) {
      choices.push_back(lower(branch, place));
    } else {
      Keywords both = gather(branch, 1);
      // A branch for other types than what stands beside allows nothing; the others are left.
      if (!last_chance && !share_type(types_of(both), types_of(beside))) continue;
      merge(both, beside);
      choices.push_back(lower_keywords(both, branch.path, place));
    }
  }
  return rules_.choice(std::move(choices));
}

namespace {

// A bound as the exact decimal that the schema writes; whole numbers keep all their digits.
DecimalBound decimal_bound(const Sited& bound, bool exclusive) {
  if (!bound.value->is_number()) refuse_schema(bound.path, "wanted a number");
  DecimalBound decimal;
  if (bound.value->is_number_unsigned() &&
      bound.value->get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    decimal = decimal_of(bound.value->get<double>());
  } else if (bound.value->is_number_integer()) {
    decimal.digits = bound.value->get<std::int64_t>();
    if (decimal.digits == INT64_MIN) decimal = decimal_of(bound.value->get<double>());
  } else {
    const auto value = bound.value->get<double>();
    if (!std::isfinite(value)) refuse_schema(bound.path, "the number is not finite");
    decimal = decimal_of(value);
  }
  decimal.exclusive = exclusive;
  return decimal;
}

// The whole numbers that a lower (or, negated, an upper) bound leaves.
std::int64_t first_whole(const Sited& bound, bool exclusive, bool lower) {
  const OrderedJson& value = *bound.value;
  if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<double>() > 9e18)) {
    const auto whole = value.get<std::int64_t>();
    const std::int64_t clamped = std::clamp(whole, -kLargestInteger - 1, kLargestInteger + 1);
    return exclusive ? clamped + (lower ? 1 : -1) : clamped;
  }
  const auto number = value.get<double>();
  if (!std::isfinite(number)) refuse_schema(bound.path, "the number is not finite");
  if (number >= 1e18) return kLargestInteger + (lower ? 1 : 0);
  if (number <= -1e18) return -kLargestInteger - (lower ? 0 : 1);
  const double rounded = lower ? std::ceil(number) : std::floor(number);
  const auto whole = static_cast<std::int64_t>(rounded);
  return exclusive && rounded == number ? whole + (lower ? 1 : -1) : whole;
}

int multiple_of(const Keywords& keywords) {
  const Sited* multiple = find(keywords, "multipleOf");
  if (multiple == nullptr) return 1;
  const OrderedJson& value = *multiple->value;
  if (!value.is_number() || !(value.get<double>() > 0))
    refuse_schema(multiple->path, "wanted a number above 0");
  if (type_of(value) != kIntegerType || value.get<double>() > kLargestMultiple)
    refuse_schema(
        multiple->path,
        fmt::format("keyword \"multipleOf\" with {} is not supported: whole numbers up to "
                    "{} are",
                    dump_json(value), kLargestMultiple));
  return static_cast<int>(value.get<double>());
}

}  // namespace

ExprId SchemaLowering::lower_number(std::uint32_t type, const Keywords& keywords,
                                    const std::string& path) {
  const int multiple = multiple_of(keywords);
  const bool whole = type == kIntegerType || find(keywords, "multipleOf") != nullptr;
  struct End {
    const char* name;
    bool exclusive, lower;
  };
  constexpr End kEnds[] = {{"minimum", false, true},
                           {"exclusiveMinimum", true, true},
                           {"maximum", false, false},
                           {"exclusiveMaximum", true, false}};
  std::int64_t low = -kLargestInteger;
  std::int64_t high = kLargestInteger;
  std::optional<DecimalBound> decimal_low, decimal_high;
  const Sited* sited_low = nullptr;
  const Sited* sited_high = nullptr;
  bool bounded = false;
  for (const End& end : kEnds) {
    const Sited* bound = find(keywords, end.name);
    if (bound == nullptr) continue;
    const DecimalBound decimal = decimal_bound(*bound, end.exclusive);
    bounded = true;
    const std::int64_t first = first_whole(*bound, end.exclusive, end.lower);
    (end.lower ? low : high) = end.lower ? std::max(low, first) : std::min(high, first);
    const Sited*& sited = end.lower ? sited_low : sited_high;
    auto& kept = end.lower ? decimal_low : decimal_high;
    // The tighter one; where both are equal the exclusive one, which comes later.
    if (sited == nullptr ||
        (end.lower ? *bound->value >= *sited->value : *bound->value <= *sited->value)) {
      sited = bound;
      kept = decimal;
    }
  }
  if (!bounded && multiple == 1) return whole ? text_.integer() : text_.number();
  const ExprId numbers = whole ? integers_between(rules_, low, high, multiple)
                               : decimals_between(rules_, decimal_low, decimal_high);
  if (rules_.is_never(numbers))
    refuse_schema(path,
                  "no number of at most 18 digits (15 beside bounds of type number) is "
                  "within the bounds");
  return numbers;
}

}  // namespace ingot::grammar
