#include "cpu/simd/vec_avx2.h"
// Vectors first.
#include "cpu/simd/attention_body.h"

namespace ingot::cpu {

const AttentionTier kAttentionAvx2 = kAttention;

}  // namespace ingot::cpu
