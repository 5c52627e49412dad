#pragma once

#include "cpu/simd/rows.h"
#include "ops/attrs.h"

#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

struct RotationInputs {
  const std::int32_t* positions;  // [T]
  const float* inv_freq;          // [F, rotary / 2]
  const std::int32_t* rope_row;   // [T]
};

// The rotation of one token, its cosines and sines computed.
struct TokenRotation {
  const RowKernels& rows;
  RotateCall shape;
  float* spare;  // of the thread, as long as Rotation was told

  // x, out: [heads, dim]; out may be x.
  void apply(const float* x, std::int64_t heads, float* out) const {
    RotateCall call = shape;
    call.x = x;
    call.heads = heads;
    call.out = out;
    rows.rotate(call);
  }
};

// Rotary embedding as the attributes say; workspace holds cosines, sines and `spare` floats for
// each thread.
class Rotation {
 public:
  explicit Rotation(const RopeAttrs& attrs, std::int64_t spare = 0)
      : attrs_(attrs), thread_floats_((attrs.rotary_dim + spare + 15) / 16 * 16) {}

  std::int64_t dim() const { return attrs_.head_dim; }
  std::size_t workspace_bytes(int threads) const {
    return static_cast<std::size_t>(thread_floats_ * threads) * sizeof(float);
  }

  TokenRotation at(const RowKernels& rows, const RotationInputs& inputs, std::int64_t token,
                   std::byte* workspace, int thread) const {
    float* cos = reinterpret_cast<float*>(workspace) + thread * thread_floats_;
    const std::int64_t half = attrs_.rotary_dim / 2;
    rows.angles({.position = static_cast<float>(inputs.positions[token]),
                 .inv_freq = inputs.inv_freq + inputs.rope_row[token] * half,
                 .n = half,
                 .scale = static_cast<float>(attrs_.scale),
                 .cos = cos,
                 .sin = cos + half});
    return {.rows = rows,
            .shape = {.x = nullptr,
                      .heads = 0,
                      .dim = attrs_.head_dim,
                      .rotary = attrs_.rotary_dim,
                      .interleaved = attrs_.interleaved,
                      .cos = cos,
                      .sin = cos + half,
                      .out = nullptr},
            .spare = cos + attrs_.rotary_dim};
  }

 private:
  RopeAttrs attrs_;
  std::int64_t thread_floats_;
};

}  // namespace ingot::cpu
