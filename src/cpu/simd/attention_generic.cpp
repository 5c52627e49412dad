#include "cpu/simd/vec_generic.h"
// Vectors first.
#include "cpu/simd/attention_body.h"

namespace ingot::cpu {

const AttentionTier kAttentionGeneric = kAttention;

}  // namespace ingot::cpu
