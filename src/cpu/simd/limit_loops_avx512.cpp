#include "cpu/simd/limit_loops.h"

namespace ingot::cpu {

void fma_loop_avx512(std::int64_t steps) {
  typedef float Vec __attribute__((vector_size(64)));
  Vec acc[kLimitChains] = {};
  Vec x = {};
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kLimitChains; ++j)
      asm volatile("vfmadd231ps %1, %1, %0" : "+v"(acc[j]) : "v"(x));
}

void int8_loop_avx512(std::int64_t steps) {
  typedef long long Vec __attribute__((vector_size(64)));
  Vec acc[kLimitChains] = {};
  Vec w = {};
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kLimitChains; ++j) {
      Vec t;
      asm volatile("vpmaddubsw %2, %2, %1\n vpmaddwd %2, %1, %1\n vpaddd %1, %0, %0"
                   : "+v"(acc[j]), "=&v"(t)
                   : "v"(w));
    }
}

}  // namespace ingot::cpu
