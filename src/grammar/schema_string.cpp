#include "base/error.h"
#include "grammar/regex_parser.h"
#include "grammar/schema_lowering.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ingot::grammar {

namespace {

// Characters at the beginning of a string without an upper end that are counted one by one.
constexpr int kCountedBeginning = 256;

struct Format {
  std::string_view name;
  const char* pattern;
};

// Narrower than the RFCs where that is simpler; every match is valid under them.
#define INGOT_DATE                                            \
  "[0-9]{3}[1-9]-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|" \
  "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define INGOT_TIME                                           \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?" \
  "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define INGOT_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define INGOT_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
constexpr Format kFormats[] = {
    {"date", INGOT_DATE},
    {"time", INGOT_TIME},
    {"date-time", INGOT_DATE "T" INGOT_TIME},
    {"duration",
     "P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,2}H([0-9]{1,2}M([0-9]{1,2}S)?)?)?|"
     "T[0-9]{1,4}H([0-9]{1,2}M([0-9]{1,2}S)?)?|T[0-9]{1,4}M([0-9]{1,2}S)?|"
     "T[0-9]{1,6}S)"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"ipv4", INGOT_BYTE "(\\." INGOT_BYTE "){3}"},
    {"ipv6", "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}"},
    {"hostname", INGOT_LABEL "(\\." INGOT_LABEL "){0,8}"},
    {"email",
     "[A-Za-z0-9_+-]{1,20}(\\.[A-Za-z0-9_+-]{1,20}){0,2}@" INGOT_LABEL "(\\." INGOT_LABEL "){1,4}"},
    {"uri",
     "https?://" INGOT_LABEL "(\\." INGOT_LABEL "){0,4}(:[1-9][0-9]{0,3})?"
     "(/[A-Za-z0-9._~-]{0,64}){0,16}(\\?[A-Za-z0-9._~=&-]{0,256})?(#[A-Za-z0-9._~-]{0,64})?"},
};
#undef INGOT_DATE
#undef INGOT_TIME
#undef INGOT_BYTE
#undef INGOT_LABEL

}  // namespace

ExprId SchemaLowering::lower_string(const Keywords& keywords, const std::string& path,
                                    JsonPlace place) {
  const Sited* pattern = find(keywords, "pattern");
  const Sited* format = find(keywords, "format");
  const int limit = rules_.limits().max_repeat;
  const int min = count_of(keywords, "minLength", 0, limit);
  const int max = count_of(keywords, "maxLength", kUnbounded, INT32_MAX);
  if (max != kUnbounded && max < min) refuse_schema(path, "minLength is above maxLength");
  const bool counted = min > 0 || max != kUnbounded;
  if ((pattern != nullptr && format != nullptr) ||
      ((pattern != nullptr || format != nullptr) && counted))
    refuse_schema(path,
                  "only one of the keywords \"pattern\", \"format\" and minLength or "
                  "maxLength is supported at a time");
  RegexUse use{.where = "guided.json_schema", .search = true, .write_char = {}};
  use.write_char = [this](RuleSet&, const CharSet& set) { return text_.character(set); };
  use.run_of = [](const CharSet& set) { return set.intersected(JsonText::plain_characters()); };
  if (pattern != nullptr) {
    if (!pattern->value->is_string()) refuse_schema(pattern->path, "wanted a text");
    return text_.quoted(parse_regex(rules_, pattern->value->get_ref<const std::string&>(), use));
  }
  if (format != nullptr) {
    if (!format->value->is_string()) refuse_schema(format->path, "wanted a text");
    const auto* known = std::ranges::find(
        kFormats, std::string_view(format->value->get_ref<const std::string&>()), &Format::name);
    if (known == std::end(kFormats))
      refuse_schema(format->path,
                    fmt::format("format {} is not supported", dump_json(*format->value)));
    use.search = false;
    return text_.quoted(parse_regex(rules_, known->pattern, use));
  }
  if (!counted) return text_.string(place);
  if (max == kUnbounded) {
    if (min > kCountedBeginning)
      refuse_schema(path, fmt::format("minLength above {} needs a maxLength", kCountedBeginning));
    return text_.string_from(min, place);
  }
  // Nobody counts to more: a shorter string is valid as well.
  return text_.string_between(min, std::min(max, 1'000'000));
}

}  // namespace ingot::grammar
