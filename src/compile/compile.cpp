#include "compile/compile.h"

#include "base/check.h"
#include "base/error.h"
#include "passes/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ingot {

namespace {

std::uint64_t aligned(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

// Turns values into places while it builds the plan's tables.
class Lowering {
 public:
  Lowering(const Graph& graph, const Device& device, const MemoryPlan& memory, Plan& plan)
      : graph_(graph), device_(device), memory_(memory), plan_(plan) {}

  void add_tables() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind == ValueKind::kInput)
        plan_.inputs.push_back({value.name, value.type, memory_.offsets[v]});
      if (value.kind == ValueKind::kState) {
        places_[static_cast<ValueId>(v)] = static_cast<std::int64_t>(plan_.states.size());
        plan_.states.push_back({value.name, value.type.state});
      }
    }
    add_weights();
  }

  PlanOperand operand(ValueId id) const {
    const Value& value = graph_.value(id);
    PlanOperand o{.type = value.type};
    if (value.kind == ValueKind::kWeight || value.kind == ValueKind::kState) {
      o.place = value.kind == ValueKind::kWeight ? Place::kWeight : Place::kState;
      o.at = places_.at(id);
    } else {
      o.at = memory_.offsets[static_cast<std::size_t>(id)];
    }
    return o;
  }

 private:
  // In the order of first use, each in the layout that suits all of its readers.
  void add_weights() {
    std::map<ValueId, std::vector<WeightUse>> uses;
    std::vector<ValueId> order;
    for (const Node& node : graph_.nodes) {
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const ValueId id = node.operands[i];
        if (graph_.value(id).kind != ValueKind::kWeight) continue;
        if (uses.find(id) == uses.end()) order.push_back(id);
        uses[id].push_back({node.op->name, static_cast<int>(i)});
      }
    }
    std::uint64_t offset = 0;
    for (const ValueId id : order) {
      const Value& value = graph_.value(id);
      check(value.type.format != nullptr, "a weight without format");
      const Shape shape = value.type.at(graph_.max);
      const WeightLayout layout = device_.weight_layout(*value.type.format, shape, uses[id]);
      places_[id] = static_cast<std::int64_t>(plan_.weights.size());
      plan_.weights.push_back({.name = value.name,
                               .format = std::string(value.type.format->name),
                               .shape = shape,
                               .layout = layout.name,
                               .offset = offset,
                               .bytes = layout.bytes,
                               .checksum = 0,
                               .recipe = value.recipe});
      offset = aligned(offset + layout.bytes, kWeightAlignment);
    }
  }

  const Graph& graph_;
  const Device& device_;
  const MemoryPlan& memory_;
  Plan& plan_;
  std::map<ValueId, std::int64_t> places_;
};

// Finds a kernel for every step; gathers all reasons, so that one build names all that is missing.
void choose_kernels(Plan& plan, const Device& device, CodeStore& code) {
  std::map<std::string, int> missing;
  for (PlanStep& step : plan.steps) {
    KernelOrReason answer = device.find_kernel(step_call(plan, step), code);
    if (auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&answer)) {
      step.kernel = (*kernel)->name();
      plan.workspace_bytes =
          std::max<std::uint64_t>(plan.workspace_bytes, (*kernel)->workspace_bytes());
    } else {
      ++missing[step.op + ": " + std::get<std::string>(answer)];
    }
  }
  if (missing.empty()) return;
  std::string text;
  for (const auto& [what, count] : missing)
    text += fmt::format("{}{} ({} times)", text.empty() ? "" : "; ", what, count);
  fail(ErrorCode::kBadInput, "[compile] {} has no kernel for {}", plan.target, text);
}

}  // namespace

Compiled compile(Graph graph, const Device& device, const CompileOptions& options) {
  Compiled result;
  CodeStore trial;  // kernels that passes asked about and no step needs stay out of the engine
  PassContext context(device, options.mode, trial);
  verify(graph);
  result.passes = run_pipeline(graph, context, options.skip_passes);

  const MemoryPlan memory = plan_memory(graph);
  Plan& plan = result.plan;
  plan.target = device.info().target;
  plan.mode = options.mode;
  plan.max = graph.max;
  plan.page_tokens = device.page_tokens();
  plan.arena_bytes = static_cast<std::uint64_t>(memory.arena_bytes);
  plan.head_begin = memory.head_begin;
  Lowering lowering(graph, device, memory, plan);
  lowering.add_tables();
  for (const Node& node : graph.nodes) {
    PlanStep step{.op = std::string(node.op->name),
                  .attrs = node.attrs,
                  .operands = {},
                  .results = {},
                  .kernel = {}};
    for (const ValueId o : node.operands) step.operands.push_back(lowering.operand(o));
    for (const ValueId r : node.results) step.results.push_back(lowering.operand(r));
    plan.steps.push_back(std::move(step));
  }
  check(graph.outputs.size() == 1, "a decoder has one output");
  plan.logits = lowering.operand(graph.outputs[0]);
  choose_kernels(plan, device, result.code);
  result.arena_lower_bound = memory.lower_bound;
  result.graph = std::move(graph);
  return result;
}

}  // namespace ingot
