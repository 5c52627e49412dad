#include "base/error.h"
#include "plan/engine_info.h"
#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <map>

// Engines are untrusted bytes, and kernels check nothing: a plan is believed only when everything
// that its steps can touch lies inside its buffers. No type in it is taken at its word: weights
// and states are what their tables say, activations what the op that made them infers from there.
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

// Bytes of the arena, [begin, end).
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// What the arena holds while the steps run, inputs apart.
class ArenaContents {
 public:
  // Results of a step take their places from what was there.
  void write(const Extent& extent, const ValueType& type) {
    // Values do not overlap, so those before the first that ends behind `begin` are unharmed.
    auto it = values_.lower_bound(extent.begin);
    if (it != values_.begin() && std::prev(it)->second.extent.end > extent.begin) --it;
    while (it != values_.end() && it->second.extent.overlaps(extent)) it = values_.erase(it);
    values_.emplace(extent.begin, Held{extent, &type});
  }

  // Whether the value of this type that was written there is whole.
  bool holds(const Extent& extent, const ValueType& type) const {
    const auto it = values_.find(extent.begin);
    return it != values_.end() && *it->second.type == type;
  }

 private:
  struct Held {
    Extent extent;
    const ValueType* type;  // the plan's
  };
  std::map<std::int64_t, Held> values_;  // by where they begin
};

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, OpTable ops) : plan_(plan), ops_(ops) {}

  void run() {
    if (plan_.arena_bytes > kMaxBytes || plan_.workspace_bytes > kMaxBytes)
      bad("buffers of absurd size");
    if (plan_.max[Symbol::kTokens] < plan_.max[Symbol::kSequences])
      bad("steps of {} tokens for {} sequences", plan_.max[Symbol::kTokens],
          plan_.max[Symbol::kSequences]);
    weights();
    states();
    inputs();
    if (plan_.head_begin < 0 || plan_.head_begin > static_cast<std::int64_t>(plan_.steps.size()))
      bad("head outside the steps");
    logits();
    for (const PlanStep& s : plan_.steps) step(s);
    order();
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

  // Sizes whose sum over all states cannot overflow, whatever a page's layout adds.
  void states() const {
    std::int64_t elements = 0;  // of K in a page of every state
    for (const PlanState& s : plan_.states) {
      const StateSpec& spec = s.spec;
      if (!is_state_dtype(spec.dtype)) bad("state {} of {}", s.name, dtype_name(spec.dtype));
      const auto page =
          checked_product(std::array{spec.kv_heads, spec.head_dim, plan_.page_tokens});
      if (!page || *page > kMaxElements - elements) bad("state {} of absurd size", s.name);
      elements += *page;
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
      const Extent extent = arena(input.offset, input.type);
      for (const PlanInput& other : plan_.inputs)
        if (&other != &input &&
            (other.name == input.name || extent.overlaps(arena(other.offset, other.type))))
          bad("inputs {} and {} are one", input.name, other.name);
    }
  }

  // Of the wanted rows, or of every token.
  void logits() const {
    const ValueType& t = plan_.logits.type;
    const bool fits =
        plan_.logits.place == Place::kArena && t.dtype == DType::kF32 && t.dims.size() == 2 &&
        (t.dims[0] == Dim(Symbol::kRows) || t.dims[0] == Dim(Symbol::kTokens)) &&
        t.dims[1].is_number() && t.dims[1].offset >= 1 && t.dims[1].offset <= INT32_MAX;
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
    check_sharing(s, op);
  }

  void result(const PlanStep& s, const PlanOperand& o, const ValueType& inferred) const {
    if (o.place != Place::kArena) bad("{} would write a weight or state", s.op);
    if (o.type != inferred)
      bad("{} makes {}, the plan says {}", s.op, to_string(inferred), to_string(o.type));
    const Extent extent = arena(o.at, o.type);
    for (const PlanInput& input : plan_.inputs)
      if (extent.overlaps(arena(input.offset, input.type)))
        bad("{} would write over the input {}", s.op, input.name);
  }

  void check_index(const PlanStep& s, const IndexOperand& index) const {
    const PlanOperand& o = s.operands.at(static_cast<std::size_t>(index.operand));
    const PlanInput* input = input_at(o);
    if (!input || input->name != index.input)
      bad("{} takes its {} from elsewhere", s.op, index.input);
    if (index.into < 0) return;
    const Dim into = s.operands.at(static_cast<std::size_t>(index.into)).type.dims.at(0);
    // A token's id, or a row of the rope table (check_agreement knows how many there are): into a
    // table. Else a token of this step.
    const bool fits = index.input == "ids"        ? into.is_number() && into.offset >= vocab()
                      : index.input == "rope_row" ? into.is_number() && into.offset >= 1
                                                  : into == Dim(Symbol::kTokens);
    if (!fits) bad("{} with {} into {} rows", s.op, index.input, to_string(into));
  }

  // Kernels read operands while they write results: these share memory only as the op allows.
  void check_sharing(const PlanStep& s, const OpDef& op) const {
    for (std::size_t r = 0; r < s.results.size(); ++r) {
      const PlanOperand& result = s.results[r];
      const Extent extent = arena(result.at, result.type);
      for (std::size_t other = 0; other < r; ++other)
        if (extent.overlaps(arena(s.results[other].at, s.results[other].type)))
          bad("{} would write two results to one place", s.op);
      int shared = 0;
      for (std::size_t i = 0; i < s.operands.size(); ++i) {
        const PlanOperand& o = s.operands[i];
        if (o.place != Place::kArena || !extent.overlaps(arena(o.at, o.type))) continue;
        const std::pair pair(static_cast<int>(i), static_cast<int>(r));
        const bool allowed =
            std::find(op.in_place.begin(), op.in_place.end(), pair) != op.in_place.end();
        if (!allowed || o.at != result.at || o.type != result.type || ++shared > 1)
          bad("{} would write over its operand {}", s.op, i);
      }
    }
  }

  // Every step reads what an earlier one left whole. The head runs once for every slice of rows, so
  // it must find all that it reads a second time; `rows` is not there before it.
  void order() const {
    ArenaContents contents;
    const auto head = static_cast<std::size_t>(plan_.head_begin);
    for (std::size_t i = 0; i < head; ++i) follow(plan_.steps[i], contents, false);
    for (int slice = 0; slice < 2; ++slice)
      for (std::size_t i = head; i < plan_.steps.size(); ++i)
        follow(plan_.steps[i], contents, true);
    if (!contents.holds(arena(plan_.logits.at, plan_.logits.type), plan_.logits.type))
      bad("no step leaves the logits where they are said to be");
  }

  void follow(const PlanStep& s, ArenaContents& contents, bool in_head) const {
    for (const PlanOperand& o : s.operands) {
      if (o.place != Place::kArena) continue;
      const PlanInput* input = input_at(o);
      const bool there =
          input ? in_head || input->name != "rows" : contents.holds(arena(o.at, o.type), o.type);
      if (!there) bad("{} reads {}, which no step before it leaves", s.op, to_string(o.type));
    }
    for (const PlanOperand& o : s.results) contents.write(arena(o.at, o.type), o.type);
  }

  // The input that the operand is; null when it is an activation, a weight or a state.
  const PlanInput* input_at(const PlanOperand& o) const {
    if (o.place != Place::kArena) return nullptr;
    const auto it = std::find_if(plan_.inputs.begin(), plan_.inputs.end(), [&](const PlanInput& i) {
      return i.offset == o.at && i.type == o.type;
    });
    return it == plan_.inputs.end() ? nullptr : &*it;
  }

  // The operand's place is one, and its type the one that the table there gives.
  void place(const PlanOperand& o) const {
    if (o.place == Place::kArena) {
      arena(o.at, o.type);
      return;
    }
    const auto at = static_cast<std::size_t>(o.at);
    ValueType wanted;
    if (o.place == Place::kWeight) {
      if (o.at < 0 || at >= plan_.weights.size()) bad("operand names a weight that is not there");
      const PlanWeight& w = plan_.weights[at];
      wanted.format = find_weight_format(w.format);
      wanted.dims.assign(w.shape.dims().begin(), w.shape.dims().end());
    } else {
      if (o.at < 0 || at >= plan_.states.size()) bad("operand names a state that is not there");
      wanted.state = plan_.states[at].spec;
      wanted.dtype = wanted.state.dtype;
    }
    if (o.type != wanted)
      bad("operand of type {}, its table says {}", to_string(o.type), to_string(wanted));
  }

  // Where a value lies, at the maxima; refuses what is not inside the arena.
  Extent arena(std::int64_t at, const ValueType& type) const {
    if (type.format || type.state != StateSpec{}) bad("a weight or state in the arena");
    const auto count = checked_product(type.at(plan_.max).dims());
    if (!count || *count < 1 || *count > kMaxElements) bad("an activation of absurd size");
    const std::uint64_t bytes = static_cast<std::uint64_t>(*count) * dtype_bytes(type.dtype);
    if (at < 0 || at % kArenaStep != 0 || bytes > plan_.arena_bytes ||
        static_cast<std::uint64_t>(at) > plan_.arena_bytes - bytes)
      bad("an activation outside the arena");
    return {at, at + static_cast<std::int64_t>(bytes)};
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
  if (info.max_batch != plan.max[Symbol::kSequences])
    bad("steps of {} sequences, a plan for {}", info.max_batch, plan.max[Symbol::kSequences]);
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
