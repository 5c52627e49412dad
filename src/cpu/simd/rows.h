#pragma once

// Work on single rows of activations, in one instruction tier. No std:: templates here (see
// packed_format.h). Except for `swiglu` the tiers agree bit for bit: the same operations in the
// same order, nothing fused.
#include "cpu/simd/attention.h"

#include <stdint.h>

namespace ingot::cpu {

struct AnglesCall {
  float position;
  const float* inv_freq;  // [n]
  int64_t n;
  float scale;
  float* cos;  // [n]: scale * cos(position * inv_freq), the angle rounded to f32 first
  float* sin;  // [n]
};

struct RotateCall {
  const float* x;  // [heads][dim]
  int64_t heads;
  int64_t dim;
  int64_t rotary;    // the first `rotary` of dim turn
  bool interleaved;  // pairs (2i, 2i + 1), else (i, i + rotary / 2)
  const float* cos;  // [rotary / 2]
  const float* sin;
  float* out;  // as x; may be x
};

// K and V of one token and head into its page (attention.h).
struct AppendCall {
  const float* k;  // [dim]
  const float* v;  // [dim]
  int64_t dim;
  KvStore store;
  uint8_t* k_to;  // the token's first value
  uint8_t* v_to;
  uint8_t* k_scale;  // an f32 each, in 8 bit
  uint8_t* v_scale;
};

struct RowKernels {
  // out = x * (1 / sqrt(mean(x^2) + eps)) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  void (*add)(const float* x, const float* y, int64_t n, float* out);
  // silu(gate) * up, by the steps of matmul.h.
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*angles)(const AnglesCall& call);
  void (*rotate)(const RotateCall& call);
  void (*append)(const AppendCall& call);
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);
  void (*from_bf16)(const uint16_t* x, int64_t n, float* out);
};

extern const RowKernels kRowsGeneric;
#if defined(__x86_64__)
extern const RowKernels kRowsAvx2;
extern const RowKernels kRowsAvx512;
#endif

}  // namespace ingot::cpu
