#include "plan/plan.h"

namespace ingot {

std::uint64_t Plan::weight_bytes() const {
  return weights.empty() ? 0 : weights.back().offset + weights.back().bytes;
}

OpCall step_call(const Plan& plan, const PlanStep& step) {
  OpCall call{.op = step.op,
              .attrs = &step.attrs,
              .operands = {},
              .layouts = {},
              .results = {},
              .max = plan.max,
              .mode = plan.mode,
              .page_tokens = plan.page_tokens};
  for (const PlanOperand& o : step.operands) {
    call.operands.push_back(o.type);
    call.layouts.push_back(o.place == Place::kWeight
                               ? plan.weights[static_cast<std::size_t>(o.at)].layout
                               : std::string());
  }
  for (const PlanOperand& o : step.results) call.results.push_back(o.type);
  return call;
}

}  // namespace ingot
