// The AVX-512 tier with BF16 instructions: they serve bf16 and e4m3 caches.
#include "cpu/simd/vec_avx512.h"
// Vectors first.
#include "cpu/simd/attention_bf16.h"
#include "cpu/simd/attention_pairs_direct.h"
#include "cpu/simd/attention_pairs_tiled.h"

namespace ingot::cpu {

const AttentionKernels kAttentionBf16Avx512Bf16 = {attend_pairs_direct<Bf16Pairs>,
                                                   attend_pairs_tiled<Bf16Pairs>};
const AttentionKernels kAttentionE4m3Avx512Bf16 = {attend_pairs_direct<E4m3Pairs>,
                                                   attend_pairs_tiled<E4m3Pairs>};

}  // namespace ingot::cpu
