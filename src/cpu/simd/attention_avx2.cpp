#include "cpu/simd/vec_avx2.h"
// Vectors first.
#include "cpu/simd/attention_body.h"

namespace ingot::cpu {

const AttentionKernels kAttentionAvx2 = {attend_direct, attend_tiled, merge_ranges};

}  // namespace ingot::cpu
