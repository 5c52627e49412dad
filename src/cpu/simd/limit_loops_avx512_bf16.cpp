#include "cpu/simd/limit_loops.h"

namespace ingot::cpu {

void bf16_loop_avx512_bf16(std::int64_t steps) {
  typedef float Vec __attribute__((vector_size(64)));
  Vec acc[kLimitChains] = {};
  Vec w = {};
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kLimitChains; ++j)
      asm volatile("vdpbf16ps %1, %1, %0" : "+v"(acc[j]) : "v"(w));
}

}  // namespace ingot::cpu
