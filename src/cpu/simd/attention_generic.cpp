#include "cpu/simd/vec_generic.h"
// Vectors first.
#include "cpu/simd/attention_body.h"

namespace ingot::cpu {

const AttentionKernels kAttentionGeneric = {attend_direct, attend_tiled, merge_ranges};

}  // namespace ingot::cpu
