#pragma once

#include "runtime/executor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace ingot::test {

// Two sequences, of two tokens and of one, in the last of kSmallStepPages pages; all three rows are
// wanted. Ids are of the plan's vocabulary, as the engine loop sees to.
inline constexpr std::int64_t kSmallStepPages = 4;
Batch small_step(const Plan& plan);

// Logits [rows, vocab] of small_step on a plan that was believed. Throws what the executor and
// prepare_kernels do; Error{kDoesNotFit} for plans that would take more memory than a test should.
std::vector<float> run_small_step(const Plan& plan, Device& device,
                                  std::span<const std::byte> weights);

}  // namespace ingot::test
