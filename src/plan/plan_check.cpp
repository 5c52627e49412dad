#include "base/error.h"
#include "plan/engine_info.h"
#include "plan/plan.h"

#include <algorithm>

// Engines are untrusted bytes, and kernels check nothing: a plan is believed only when everything
// that its steps can touch lies inside its buffers.
namespace ingot {

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 46;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
constexpr std::int64_t kArenaStep = 64;  // what vector loads of whole cache lines need

template <typename... Args>
[[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kBadInput, "[engine.plan] {}; build the engine again",
       fmt::format(format, std::forward<Args>(args)...));
}

// The inputs of a step (runtime/batch.h) and their types. An engine may lack some, never have
// others.
struct StepInput {
  std::string_view name;
  std::vector<Dim> dims;
};

const std::vector<StepInput>& step_inputs() {
  static const std::vector<StepInput> inputs = [] {
    Dim starts(Symbol::kSequences);
    starts.offset = 1;
    return std::vector<StepInput>{{"ids", {Symbol::kTokens}},
                                  {"positions", {Symbol::kTokens}},
                                  {"slots", {Symbol::kTokens}},
                                  {"rope_row", {Symbol::kTokens}},
                                  {"query_start", {starts}},
                                  {"context_len", {Symbol::kSequences}},
                                  {"block_table", {Symbol::kSequences, Symbol::kPages}},
                                  {"rows", {Symbol::kRows}}};
  }();
  return inputs;
}

const OpDef& op_of(const PlanStep& step, OpTable ops) {
  for (const OpDef* op : ops)
    if (op->name == step.op) return *op;
  bad("unknown op {}", step.op);
}

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, OpTable ops) : plan_(plan), ops_(ops) {}

  void run() {
    if (plan_.arena_bytes > kMaxBytes || plan_.workspace_bytes > kMaxBytes)
      bad("buffers of absurd size");
    weights();
    for (const PlanState& s : plan_.states)
      if (s.spec.dtype == DType::kBool || s.spec.kv_heads > kMaxElements / s.spec.head_dim)
        bad("state {} of absurd type", s.name);
    inputs();
    if (plan_.head_begin < 0 || plan_.head_begin > static_cast<std::int64_t>(plan_.steps.size()))
      bad("head outside the steps");
    logits();
    for (const PlanStep& s : plan_.steps) step(s);
  }

 private:
  void weights() const {
    std::uint64_t end = 0;
    for (const PlanWeight& w : plan_.weights) {
      const WeightFormat* format = find_weight_format(w.format);
      if (!format) bad("weight {} of unknown format {}", w.name, w.format);
      const auto elements = checked_product(w.shape.dims());
      if (w.shape.rank() < 1 || !elements || *elements < 1 || *elements > kMaxElements ||
          w.shape[w.shape.rank() - 1] % format->block != 0)
        bad("weight {} of absurd shape {}", w.name, to_string(w.shape));
      if (w.offset % kWeightAlignment != 0 || w.offset < end || w.offset > kMaxBytes ||
          w.bytes > kMaxBytes)
        bad("weight {} lies at {}, the one before ends at {}", w.name, w.offset, end);
      end = w.offset + w.bytes;
    }
  }

  void inputs() const {
    for (const PlanInput& input : plan_.inputs) {
      const auto known = std::find_if(step_inputs().begin(), step_inputs().end(),
                                      [&](const StepInput& i) { return i.name == input.name; });
      const ValueType wanted{
          .dtype = DType::kI32,
          .dims = known == step_inputs().end() ? std::vector<Dim>{} : known->dims};
      if (known == step_inputs().end() || input.type != wanted)
        bad("input {} of type {}", input.name, to_string(input.type));
      arena(input.offset, input.type);
      for (const PlanInput& other : plan_.inputs)
        if (&other != &input && (other.name == input.name || overlaps(input, other)))
          bad("inputs {} and {} are one", input.name, other.name);
    }
  }

  void logits() const {
    const ValueType& t = plan_.logits.type;
    const bool fits = plan_.logits.place == Place::kArena && t.dtype == DType::kF32 &&
                      t.dims.size() == 2 && t.dims[0] == Dim(Symbol::kRows) &&
                      t.dims[1].is_number() && t.dims[1].offset >= 1 &&
                      t.dims[1].offset <= INT32_MAX;
    if (!fits) bad("logits of type {}", to_string(t));
    place(plan_.logits);
  }

  void step(const PlanStep& s) const {
    const OpDef& op = op_of(s, ops_);
    std::vector<ValueType> operands;
    for (const PlanOperand& o : s.operands) {
      place(o);
      operands.push_back(o.type);
    }
    std::vector<ValueType> inferred;
    try {
      inferred = op.infer(s.attrs, operands);
    } catch (const Error& e) {
      bad("a step does not fit its op: {}", e.message());
    }
    if (inferred.size() != s.results.size()) bad("{} with {} results", s.op, s.results.size());
    for (std::size_t i = 0; i < inferred.size(); ++i) result(s, s.results[i], inferred[i]);
    for (const IndexOperand& index : op.indices) check_index(s, index);
  }

  void result(const PlanStep& s, const PlanOperand& o, const ValueType& inferred) const {
    place(o);
    if (o.place != Place::kArena) bad("{} would write a weight or state", s.op);
    if (o.type != inferred)
      bad("{} makes {}, the plan says {}", s.op, to_string(inferred), to_string(o.type));
    for (const PlanInput& input : plan_.inputs)
      if (overlaps({.name = {}, .type = o.type, .offset = o.at}, input))
        bad("{} would write over the input {}", s.op, input.name);
  }

  void check_index(const PlanStep& s, const IndexOperand& index) const {
    const PlanOperand& o = s.operands.at(static_cast<std::size_t>(index.operand));
    const bool is_input =
        o.place == Place::kArena &&
        std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](const PlanInput& i) {
          return i.name == index.input && i.offset == o.at && i.type == o.type;
        });
    if (!is_input) bad("{} takes its {} from elsewhere", s.op, index.input);
    if (index.into < 0) return;
    const Dim into = s.operands.at(static_cast<std::size_t>(index.into)).type.dims.at(0);
    // A token's id, or a row of the rope table (check_agreement knows how many there are): into a
    // table. Else a token of this step.
    const bool fits = index.input == "ids"        ? into.is_number() && into.offset >= vocab()
                      : index.input == "rope_row" ? into.is_number() && into.offset >= 1
                                                  : into == Dim(Symbol::kTokens);
    if (!fits) bad("{} with {} into {} rows", s.op, index.input, to_string(into));
  }

  void place(const PlanOperand& o) const {
    const auto at = static_cast<std::uint64_t>(o.at);
    if (o.at < 0) bad("operand at a negative place");
    if (o.place == Place::kWeight) {
      if (at >= plan_.weights.size() || !o.type.format || o.type.state != StateSpec{})
        bad("operand names a weight that is not there");
      const PlanWeight& w = plan_.weights[at];
      if (w.format != o.type.format->name || w.shape != o.type.at(plan_.max) ||
          !std::all_of(o.type.dims.begin(), o.type.dims.end(),
                       [](const Dim& d) { return d.is_number(); }))
        bad("weight {} of another type", w.name);
    } else if (o.place == Place::kState) {
      if (at >= plan_.states.size() || o.type.format || plan_.states[at].spec != o.type.state)
        bad("operand names a state that is not there");
    } else {
      arena(o.at, o.type);
    }
  }

  void arena(std::int64_t at, const ValueType& type) const {
    if (type.format || type.state != StateSpec{}) bad("a weight or state in the arena");
    const auto count = checked_product(type.at(plan_.max).dims());
    if (!count || *count > kMaxElements) bad("an activation of absurd size");
    const std::uint64_t bytes = static_cast<std::uint64_t>(*count) * dtype_bytes(type.dtype);
    if (at < 0 || at % kArenaStep != 0 || bytes > plan_.arena_bytes ||
        static_cast<std::uint64_t>(at) > plan_.arena_bytes - bytes)
      bad("an activation outside the arena");
  }

  // Both have passed arena().
  bool overlaps(const PlanInput& a, const PlanInput& b) const {
    const auto end = [&](const PlanInput& i) {
      return i.offset + static_cast<std::int64_t>(i.type.bytes_at(plan_.max));
    };
    return a.offset < end(b) && b.offset < end(a);
  }

  std::int64_t vocab() const { return plan_.logits.type.dims[1].offset; }

  const Plan& plan_;
  OpTable ops_;
};

}  // namespace

void check_plan(const Plan& plan, OpTable ops) {
  PlanCheck(plan, ops).run();
}

void check_agreement(const EngineInfo& info, const Plan& plan, OpTable ops) {
  if (info.vocab != plan.logits.type.dims.at(1).offset)
    bad("logits of {} columns, a vocabulary of {}", plan.logits.type.dims.at(1).offset, info.vocab);
  if (info.max_seq > plan.max[Symbol::kPages] * plan.page_tokens)
    bad("sequences of {} tokens, block tables of {} pages of {}", info.max_seq,
        plan.max[Symbol::kPages], plan.page_tokens);
  if (info.rope_long_from == 0) return;
  for (const PlanStep& step : plan.steps)
    for (const IndexOperand& index : op_of(step, ops).indices)
      if (index.input == "rope_row" &&
          step.operands.at(static_cast<std::size_t>(index.into)).type.dims.at(0).offset < 2)
        bad("requests of more than {} tokens want a second row of the rope table",
            info.rope_long_from);
}

}  // namespace ingot
