#include "tests/runtime/small_step.h"

#include "base/error.h"

#include <algorithm>

namespace ingot::test {

Batch small_step(const Plan& plan) {
  static constexpr std::int32_t kTable[] = {3, 2};
  const auto page = static_cast<std::int32_t>(plan.page_tokens);
  const auto vocab = static_cast<std::int32_t>(plan.logits.type.dims.at(1).offset);
  return {.ids = {vocab - 1, 0, 5 % vocab},
          .positions = {0, 1, 0},
          .slots = {3 * page, 3 * page + 1, 2 * page},
          .rope_row = {0, 0, 0},
          .query_start = {0, 2, 3},
          .context_len = {2, 1},
          .rows = {0, 1, 2},
          .block_table = kTable,
          .pages = 1};
}

std::vector<float> run_small_step(const Plan& plan, Device& device,
                                  std::span<const std::byte> weights) {
  constexpr std::uint64_t kMuch = 1 << 20;
  std::uint64_t pages = 0;
  for (const PlanState& state : plan.states)
    pages += device.page_bytes(state.spec, plan.page_tokens) * kSmallStepPages;
  PreparedKernels kernels = prepare_kernels(plan, device, {});
  if (std::max({plan.arena_bytes, plan.weight_bytes(), kernels.workspace_bytes, pages}) > kMuch)
    fail(ErrorCode::kDoesNotFit, "[test.memory] a plan larger than tests allow");
  Executor executor(plan, device, weights, std::move(kernels),
                    {.kv_pages = kSmallStepPages, .progress = {}});
  std::vector<float> logits;
  executor.run(small_step(plan), [&](std::int64_t, std::int64_t, std::span<const float> rows) {
    logits.insert(logits.end(), rows.begin(), rows.end());
  });
  return logits;
}

}  // namespace ingot::test
