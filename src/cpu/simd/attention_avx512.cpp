#include "cpu/simd/vec_avx512.h"
// Vectors first.
#include "cpu/simd/attention_body.h"

namespace ingot::cpu {

const AttentionTier kAttentionAvx512 = kAttention;

}  // namespace ingot::cpu
