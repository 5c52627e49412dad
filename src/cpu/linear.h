#pragma once

#include "base/threads.h"
#include "cpu/packed_weight.h"
#include "cpu/simd/tier.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ingot::cpu {

// y = epilogue(x W^T + bias) + residual.
struct LinearCall {
  // [n_i, k] each, the same k; outputs lie side by side, n = sum of n_i. Formats may differ.
  std::span<const PackedWeight> weights;
  std::int64_t m = 0;        // tokens
  const float* x = nullptr;  // [m, k]
  std::int64_t x_stride = 0;
  float* y = nullptr;  // [m, n], with Epilogue::kSwiglu [m, n / 2]
  std::int64_t y_stride = 0;
  const float* bias = nullptr;      // [n], in the order of the weights' rows
  const float* residual = nullptr;  // shape of y; may be y itself
  std::int64_t residual_stride = 0;
  Epilogue epilogue = Epilogue::kNone;  // kSwiglu: rows interleaved by kGateUpRows, n_i % 32 == 0
  Compute compute = Compute::kNative;
};

// Scratch of linear(), aligned to 64 bytes.
struct LinearWorkspace {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Enough for any call over weights of these formats with up to max_m tokens and max_k inputs.
// Bounded: tokens go in blocks, so it stops growing with max_m where their activations fill L2.
std::size_t linear_workspace_bytes(std::span<const PackedFormat* const> formats, Compute compute,
                                   std::int64_t max_m, std::int64_t max_k, int threads,
                                   Tier tier = best_tier());

// Allocates nothing. A result row has the same bits whatever m, its position, the number of threads
// and the weights beside it: int32 dot products are exact, and group sums meet f32 in ascending
// order by the same operations in every path.
void linear(ThreadPool& pool, const LinearWorkspace& workspace, const LinearCall& call,
            Tier tier = best_tier());

}  // namespace ingot::cpu
