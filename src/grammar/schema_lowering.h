#pragma once

#include "grammar/json_text.h"
#include "grammar/schema_keywords.h"

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::grammar {

// Turns a JSON Schema into rules whose every text is a valid instance: what cannot be kept exactly
// is narrowed (properties in the schema's order, no undeclared ones unless the schema speaks of
// them) or refused by its keyword, never dropped. Throws Error{kRequest} with the place.
class SchemaLowering {
 public:
  SchemaLowering(RuleSet& rules, JsonText& text, const OrderedJson& root)
      : rules_(rules), text_(text), root_(root) {}

  // The rule of the whole schema.
  int lower_root();

 private:
  // A schema in its place: a rule for what a $ref names, lowered later, so that recursion ends.
  ExprId lower(const Sited& schema, JsonPlace place);
  ExprId lower_keywords(const Keywords& keywords, const std::string& path, JsonPlace place);
  ExprId lower_type(std::uint32_t type, const Keywords& keywords, const std::string& path,
                    JsonPlace place);

  // schema_keywords gathered (schema_gather.cpp). `depth`: of references that are merged.
  Keywords gather(const Sited& schema, int depth);
  void merge(Keywords& into, const Keywords& more);
  void merge_keyword(Keywords& into, const std::string& name, const Sited& more);
  const OrderedJson* keep(OrderedJson value);
  Sited resolve(const Sited& ref);
  // Whether a $ref is all that the schema says.
  static const Sited* only_reference(const Keywords& keywords);
  static Keywords own_keywords(const Sited& schema);

  ExprId lower_values(const Keywords& keywords, const std::string& path);
  ExprId lower_any_of(const Keywords& keywords, std::string_view which, JsonPlace place);

  // oneOf (schema_one_of.cpp).
  void check_disjoint(const Sited& one_of);
  std::vector<Keywords> alternatives(const Sited& schema, int depth);
  bool disjoint(const Keywords& a, const Keywords& b, int depth);
  bool excludes(const Keywords& a, const Keywords& b, int depth);
  bool property_disjoint(const Keywords& a, const Keywords& b, const std::string& name, int depth);

  ExprId lower_number(std::uint32_t type, const Keywords& keywords, const std::string& path);
  ExprId lower_string(const Keywords& keywords, const std::string& path, JsonPlace place);

  // Arrays and objects (schema_containers.cpp).
  struct Member {
    std::string name;
    ExprId text = 0;  // key, colon, value
    bool required = false;
  };
  struct ObjectShape {
    std::vector<Member> members;
    ExprId extra = 0;  // a member that the schema does not name; never if there are none
    int min = 0;
    int max = kUnbounded;
  };
  ExprId lower_array(const Keywords& keywords, const std::string& path);
  ExprId lower_object(const Keywords& keywords, const std::string& path);
  ExprId lower_dictionary(const Keywords& keywords);
  std::vector<Member> members_of(const Keywords& keywords, const std::string& path);
  void limit_members(ObjectShape& shape, const Keywords& keywords);
  ExprId object_text(const ObjectShape& shape);
  ExprId member_text(ExprId key, ExprId value);

  struct PendingRule {
    int rule;
    Sited schema;
    JsonPlace place;
  };

  RuleSet& rules_;
  JsonText& text_;
  const OrderedJson& root_;
  std::map<std::pair<const OrderedJson*, JsonPlace>, int> reference_rules_;
  std::deque<PendingRule> pending_;
  std::map<std::string, OrderedJson> kept_;  // values that merging made, by their text
};

}  // namespace ingot::grammar
