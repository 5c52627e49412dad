#include "base/check.h"
#include "base/error.h"
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

Dim dim_from_json(const Json& j) {
  if (j.is_number_integer()) return Dim(j.get<std::int64_t>());
  const auto name = j.at(0).get<std::string>();
  for (std::size_t s = 1; s < std::size(kSymbolNames); ++s) {
    if (kSymbolNames[s] != name) continue;
    Dim d(static_cast<Symbol>(s), j.at(1).get<std::int64_t>());
    d.offset = j.at(2).get<std::int64_t>();
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
  return {{"kv_heads", s.kv_heads},
          {"head_dim", s.head_dim},
          {"dtype", dtype_name(s.dtype)},
          {"window", s.window}};
}

StateSpec state_from_json(const Json& j) {
  return {.kv_heads = j.at("kv_heads").get<std::int64_t>(),
          .head_dim = j.at("head_dim").get<std::int64_t>(),
          .dtype = dtype_from(j.at("dtype")),
          .window = j.at("window").get<std::int64_t>()};
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
  for (const Json& d : j.at("dims")) t.dims.push_back(dim_from_json(d));
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

Attrs attrs_from_json(const Json& j) {
  Attrs attrs;
  for (const auto& [name, v] : j.items()) {
    if (v.is_boolean()) {
      attrs.set(name, v.get<bool>());
    } else if (v.is_number_integer()) {
      attrs.set(name, v.get<std::int64_t>());
    } else if (v.is_number_float()) {
      attrs.set(name, v.get<double>());
    } else if (v.is_string()) {
      attrs.set(name, v.get<std::string>());
    } else if (v.is_array()) {
      attrs.set(name, v.get<std::vector<std::int64_t>>());
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

// Reads operands and checks each against the tables that are already there.
class OperandReader {
 public:
  explicit OperandReader(const Plan& plan) : plan_(plan) {}

  PlanOperand operator()(const Json& j) const {
    PlanOperand o;
    const auto place = j.at("in").get<std::string>();
    if (place == "weight") {
      o.place = Place::kWeight;
    } else if (place == "state") {
      o.place = Place::kState;
    } else if (place != "arena") {
      bad("operand in " + place);
    }
    o.at = j.at("at").get<std::int64_t>();
    o.type = type_from_json(j.at("type"));
    check_place(o);
    return o;
  }

 private:
  void check_place(const PlanOperand& o) const {
    if (o.at < 0) bad("operand at a negative place");
    const auto at = static_cast<std::uint64_t>(o.at);
    if (o.place == Place::kWeight) {
      if (at >= plan_.weights.size() || !o.type.format)
        bad("operand names a weight that is not there");
      const PlanWeight& w = plan_.weights[at];
      if (w.format != o.type.format->name || w.shape != o.type.at(plan_.max))
        bad("weight " + w.name + " of another type");
    } else if (o.place == Place::kState) {
      if (at >= plan_.states.size() || plan_.states[at].spec != o.type.state)
        bad("operand names a state that is not there");
    } else {
      const Shape shape = o.type.at(plan_.max);
      const auto count = checked_product(shape.dims());
      if (!count || *count > (std::int64_t{1} << 40)) bad("an activation of absurd size");
      const std::uint64_t bytes = static_cast<std::uint64_t>(*count) * dtype_bytes(o.type.dtype);
      if (bytes > plan_.arena_bytes || at > plan_.arena_bytes - bytes)
        bad("an activation outside the arena");
    }
  }

  const Plan& plan_;
};

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
  const auto dims = j.at("shape").get<std::vector<std::int64_t>>();
  if (dims.size() > Shape::kMaxRank || !checked_product(dims))
    bad("weight " + w.name + " of absurd shape");
  w.shape = Shape(std::span(dims));
  w.layout = j.at("layout").get<std::string>();
  w.offset = j.at("offset").get<std::uint64_t>();
  w.bytes = j.at("bytes").get<std::uint64_t>();
  w.checksum = j.at("checksum").get<std::uint64_t>();
  w.recipe.parts = j.at("parts").get<std::vector<std::string>>();
  w.recipe.interleave = j.at("interleave").get<std::int64_t>();
  return w;
}

template <typename T, typename F>
Json list_to_json(const std::vector<T>& items, F&& convert) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(convert(item));
  return list;
}

void read_plan(const Json& j, OpTable ops, Plan& plan) {
  plan.target = j.at("target").get<std::string>();
  plan.mode =
      j.at("compute").get<std::string>() == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  for (std::size_t s = 1; s < std::size(kSymbolNames); ++s) {
    const auto bound = j.at("max").at(std::string(kSymbolNames[s])).get<std::int64_t>();
    if (bound < 0 || bound > (std::int64_t{1} << 32)) bad("a bound outside 0 to 2^32");
    plan.max[static_cast<Symbol>(s)] = bound;
  }
  plan.page_tokens = j.at("page_tokens").get<std::int64_t>();
  if (plan.page_tokens < 1 || plan.page_tokens > 65536) bad("pages of absurd size");
  plan.arena_bytes = j.at("arena_bytes").get<std::uint64_t>();
  plan.workspace_bytes = j.at("workspace_bytes").get<std::uint64_t>();
  for (const Json& w : j.at("weights")) plan.weights.push_back(weight_from_json(w));
  for (const Json& s : j.at("states"))
    plan.states.push_back({s.at("name").get<std::string>(), state_from_json(s.at("spec"))});
  const OperandReader operand(plan);
  for (const Json& i : j.at("inputs")) {
    const PlanOperand o = operand(i.at("operand"));
    if (o.place != Place::kArena) bad("an input outside the arena");
    plan.inputs.push_back({i.at("name").get<std::string>(), o.type, o.at});
  }
  for (const Json& s : j.at("steps")) {
    PlanStep step;
    step.op = s.at("op").get<std::string>();
    const bool known =
        std::any_of(ops.begin(), ops.end(), [&](const OpDef* d) { return d->name == step.op; });
    if (!known) bad("unknown op " + step.op);
    step.attrs = attrs_from_json(s.at("attrs"));
    for (const Json& o : s.at("operands")) step.operands.push_back(operand(o));
    for (const Json& o : s.at("results")) step.results.push_back(operand(o));
    step.kernel = s.at("kernel").get<std::string>();
    plan.steps.push_back(std::move(step));
  }
  plan.head_begin = j.at("head_begin").get<std::int64_t>();
  if (plan.head_begin < 0 || plan.head_begin > static_cast<std::int64_t>(plan.steps.size()))
    bad("head outside the steps");
  plan.logits = operand(j.at("logits"));
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
    read_plan(json, ops, plan);
  } catch (const nlohmann::json::exception& e) {
    bad(e.what());
  }
  return plan;
}

}  // namespace ingot
