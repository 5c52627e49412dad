// The AVX-512 tier with VNNI: one instruction for two products and a sum.
#include "cpu/simd/vec_avx512.h"
// Vectors first.
#include "cpu/simd/attention_int8.h"
#include "cpu/simd/attention_pairs_direct.h"
#include "cpu/simd/attention_pairs_tiled.h"

namespace ingot::cpu {

namespace {

// Assembler because g++ 12 moves accumulators of the intrinsic between registers and memory.
struct VnniProducts {
  static void add(Vec& sums, Vec words, Vec pair) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(words), "v"(pair));
  }
};
using Arithmetic = Int8Pairs<VnniProducts>;

}  // namespace

const AttentionKernels kAttentionInt8Avx512Vnni = {attend_pairs_direct<Arithmetic>,
                                                   attend_pairs_tiled<Arithmetic>};

}  // namespace ingot::cpu
