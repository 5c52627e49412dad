#include "base/check.h"
#include "base/error.h"
#include "base/json_reason.h"
#include "plan/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

// A plan's JSON. Engines are untrusted bytes: whatever an engine says is checked before it is
// believed.
namespace ingot {

namespace {

constexpr std::string_view kSymbolNames[] = {"", "T", "S", "R", "P"};

Json dim_to_json(const Dim& d) {
  if (d.is_number()) return d.offset;
  return Json::array({kSymbolNames[static_cast<std::size_t>(d.symbol)], d.scale, d.offset});
}

[[noreturn]] void bad(std::string_view what) {
  fail(ErrorCode::kBadInput, "[engine.plan] {}; build the engine again", what);
}

// Numbers that are no integers would be cast, out of range too.
std::uint64_t bits_of(const Json& j) {
  if (!j.is_number_integer()) bad("a value is no integer: " + dump_json(j));
  return j.get<std::uint64_t>();
}

std::int64_t integer(const Json& j) {
  const std::uint64_t bits = bits_of(j);
  if (j.is_number_unsigned() && bits > INT64_MAX) bad("an integer of absurd size");
  return static_cast<std::int64_t>(bits);
}

// A loop over anything else would run as well: over nothing, or over the value itself.
const Json& list(const Json& j) {
  if (!j.is_array()) bad("a value is no list: " + dump_json(j));
  return j;
}

// Bounds under which sizes at the maxima cannot overflow.
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;
constexpr std::int64_t kMaxScale = 1 << 20;

Dim dim_from_json(const Json& j) {
  if (j.is_number_integer()) {
    const auto number = integer(j);
    if (number < 0 || number > kMaxNumber) bad("a dimension of absurd size");
    return Dim(number);
  }
  if (list(j).size() != 3) bad("a dimension is " + dump_json(j));
  const auto name = j.at(0).get<std::string>();
  for (std::size_t s = 1; s < std::size(kSymbolNames); ++s) {
    if (kSymbolNames[s] != name) continue;
    Dim d(static_cast<Symbol>(s), integer(j.at(1)));
    d.offset = integer(j.at(2));
    if (d.scale < 1 || d.scale > kMaxScale || d.offset < 0 || d.offset > kMaxScale)
      bad("a dimension of absurd size");
    return d;
  }
  bad("unknown symbol " + name);
}

DType dtype_from(const Json& j) {
  const auto name = j.get<std::string>();
  const auto dtype = dtype_from_name(name);
  if (!dtype) bad("unknown dtype " + name);
  return *dtype;
}

Json state_to_json(const StateSpec& s) {
  Json j = {{"kv_heads", s.kv_heads},
            {"head_dim", s.head_dim},
            {"dtype", dtype_name(s.dtype)},
            {"window", s.window}};
  if (s.sink_tokens > 0) j["sink_tokens"] = s.sink_tokens;
  return j;
}

StateSpec state_from_json(const Json& j) {
  const StateSpec s{.kv_heads = integer(j.at("kv_heads")),
                    .head_dim = integer(j.at("head_dim")),
                    .dtype = dtype_from(j.at("dtype")),
                    .window = integer(j.at("window")),
                    .sink_tokens = j.contains("sink_tokens") ? integer(j.at("sink_tokens")) : 0};
  if (s.kv_heads < 1 || s.kv_heads > kMaxScale || s.head_dim < 1 || s.head_dim > kMaxScale ||
      s.window < 0 || s.window > INT32_MAX || s.sink_tokens < 0 || s.sink_tokens > INT32_MAX)
    bad("a state of absurd size");
  return s;
}

Json type_to_json(const ValueType& t) {
  Json dims = Json::array();
  for (const Dim& d : t.dims) dims.push_back(dim_to_json(d));
  Json j = {{"dtype", dtype_name(t.dtype)}, {"dims", dims}};
  if (t.format) j["format"] = t.format->name;
  if (t.state != StateSpec{}) j["state"] = state_to_json(t.state);
  return j;
}

ValueType type_from_json(const Json& j) {
  ValueType t;
  t.dtype = dtype_from(j.at("dtype"));
  for (const Json& d : list(j.at("dims"))) t.dims.push_back(dim_from_json(d));
  if (t.dims.size() > Shape::kMaxRank) bad("a tensor of more than four dimensions");
  if (j.contains("format")) {
    const auto name = j["format"].get<std::string>();
    t.format = find_weight_format(name);
    if (!t.format) bad("unknown weight format " + name);
  }
  if (j.contains("state")) t.state = state_from_json(j["state"]);
  return t;
}

Json attrs_to_json(const Attrs& attrs) {
  Json j = Json::object();
  for (const auto& [name, value] : attrs.entries())
    std::visit([&, n = name](const auto& v) { j[n] = v; }, value);
  return j;
}

std::vector<std::int64_t> integers(const Json& j) {
  std::vector<std::int64_t> values;
  for (const Json& v : list(j)) values.push_back(integer(v));
  return values;
}

Attrs attrs_from_json(const Json& j) {
  Attrs attrs;
  if (!j.is_object()) bad("attributes are " + dump_json(j));
  for (const auto& [name, v] : j.items()) {
    if (v.is_boolean()) {
      attrs.set(name, v.get<bool>());
    } else if (v.is_number_integer()) {
      attrs.set(name, integer(v));
    } else if (v.is_number_float()) {
      attrs.set(name, v.get<double>());
    } else if (v.is_string()) {
      attrs.set(name, v.get<std::string>());
    } else if (v.is_array()) {
      attrs.set(name, integers(v));
    } else {
      bad("attribute " + name);
    }
  }
  return attrs;
}

constexpr std::string_view kPlaceNames[] = {"arena", "weight", "state"};

Json operand_to_json(const PlanOperand& o) {
  return {{"in", kPlaceNames[static_cast<std::size_t>(o.place)]},
          {"at", o.at},
          {"type", type_to_json(o.type)}};
}

PlanOperand operand_from_json(const Json& j) {
  PlanOperand o;
  const auto place = j.at("in").get<std::string>();
  if (place == "weight") {
    o.place = Place::kWeight;
  } else if (place == "state") {
    o.place = Place::kState;
  } else if (place != "arena") {
    bad("operand in " + place);
  }
  o.at = integer(j.at("at"));
  o.type = type_from_json(j.at("type"));
  return o;
}

Json weight_to_json(const PlanWeight& w) {
  return {{"name", w.name},
          {"format", w.format},
          {"shape", std::vector<std::int64_t>(w.shape.dims().begin(), w.shape.dims().end())},
          {"layout", w.layout},
          {"offset", w.offset},
          {"bytes", w.bytes},
          {"checksum", w.checksum},
          {"parts", w.recipe.parts},
          {"interleave", w.recipe.interleave}};
}

PlanWeight weight_from_json(const Json& j) {
  PlanWeight w;
  w.name = j.at("name").get<std::string>();
  w.format = j.at("format").get<std::string>();
  const std::vector<std::int64_t> dims = integers(j.at("shape"));
  if (dims.size() > Shape::kMaxRank || !checked_product(dims))
    bad("weight " + w.name + " of absurd shape");
  w.shape = Shape(std::span(dims));
  w.layout = j.at("layout").get<std::string>();
  w.offset = bits_of(j.at("offset"));
  w.bytes = bits_of(j.at("bytes"));
  w.checksum = bits_of(j.at("checksum"));
  w.recipe.parts = j.at("parts").get<std::vector<std::string>>();
  w.recipe.interleave = integer(j.at("interleave"));
  return w;
}

template <typename T, typename F>
Json list_to_json(const std::vector<T>& items, F&& convert) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(convert(item));
  return list;
}

void read_plan(const Json& j, Plan& plan) {
  plan.target = j.at("target").get<std::string>();
  const auto compute = j.at("compute").get<std::string>();
  if (compute != "f32" && compute != "native") bad("unknown arithmetic " + compute);
  plan.mode = compute == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  for (std::size_t s = 1; s < std::size(kSymbolNames); ++s) {
    const auto bound = integer(j.at("max").at(std::string(kSymbolNames[s])));
    if (bound < 1 || bound > (std::int64_t{1} << 31)) bad("a bound outside 1 to 2^31");
    plan.max[static_cast<Symbol>(s)] = bound;
  }
  plan.page_tokens = integer(j.at("page_tokens"));
  if (plan.page_tokens < 1 || plan.page_tokens > 65536) bad("pages of absurd size");
  plan.arena_bytes = bits_of(j.at("arena_bytes"));
  plan.workspace_bytes = bits_of(j.at("workspace_bytes"));
  for (const Json& w : list(j.at("weights"))) plan.weights.push_back(weight_from_json(w));
  for (const Json& s : list(j.at("states")))
    plan.states.push_back({s.at("name").get<std::string>(), state_from_json(s.at("spec"))});
  for (const Json& i : list(j.at("inputs"))) {
    const PlanOperand o = operand_from_json(i.at("operand"));
    if (o.place != Place::kArena) bad("an input outside the arena");
    plan.inputs.push_back({i.at("name").get<std::string>(), o.type, o.at});
  }
  for (const Json& s : list(j.at("steps"))) {
    PlanStep step;
    step.op = s.at("op").get<std::string>();
    step.attrs = attrs_from_json(s.at("attrs"));
    for (const Json& o : list(s.at("operands"))) step.operands.push_back(operand_from_json(o));
    for (const Json& o : list(s.at("results"))) step.results.push_back(operand_from_json(o));
    step.kernel = s.at("kernel").get<std::string>();
    plan.steps.push_back(std::move(step));
  }
  plan.head_begin = integer(j.at("head_begin"));
  plan.logits = operand_from_json(j.at("logits"));
}

}  // namespace

Json to_json(const Plan& plan) {
  Json max = Json::object();
  for (std::size_t s = 1; s < std::size(kSymbolNames); ++s)
    max[std::string(kSymbolNames[s])] = plan.max[static_cast<Symbol>(s)];
  return {
      {"target", plan.target},
      {"compute", plan.mode == ComputeMode::kF32 ? "f32" : "native"},
      {"max", max},
      {"page_tokens", plan.page_tokens},
      {"arena_bytes", plan.arena_bytes},
      {"workspace_bytes", plan.workspace_bytes},
      {"weights", list_to_json(plan.weights, weight_to_json)},
      {"states", list_to_json(plan.states,
                              [](const PlanState& s) {
                                return Json{{"name", s.name}, {"spec", state_to_json(s.spec)}};
                              })},
      {"inputs", list_to_json(plan.inputs,
                              [](const PlanInput& i) {
                                return Json{{"name", i.name},
                                            {"operand",
                                             operand_to_json({Place::kArena, i.offset, i.type})}};
                              })},
      {"steps", list_to_json(plan.steps,
                             [](const PlanStep& s) {
                               return Json{{"op", s.op},
                                           {"attrs", attrs_to_json(s.attrs)},
                                           {"operands", list_to_json(s.operands, operand_to_json)},
                                           {"results", list_to_json(s.results, operand_to_json)},
                                           {"kernel", s.kernel}};
                             })},
      {"head_begin", plan.head_begin},
      {"logits", operand_to_json(plan.logits)},
  };
}

Plan plan_from_json(const Json& json, OpTable ops) {
  Plan plan;
  try {
    read_plan(json, plan);
  } catch (const nlohmann::json::exception& e) {
    bad(json_reason(e));
  }
  check_plan(plan, ops);
  return plan;
}

}  // namespace ingot
