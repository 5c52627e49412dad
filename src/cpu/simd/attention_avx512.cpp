#include "cpu/simd/vec_avx512.h"
// Vectors first.
#include "cpu/simd/attention_body.h"

namespace ingot::cpu {

const AttentionKernels kAttentionAvx512 = {attend_direct, attend_tiled, merge_ranges};

}  // namespace ingot::cpu
