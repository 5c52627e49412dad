// The AVX-512 tier with BF16 instructions: they serve a bf16 KV cache, an f32 cache is the AVX-512
// tier's.
#include "cpu/simd/vec_avx512.h"
// Vectors first.
#include "cpu/simd/attention_bf16_direct.h"
#include "cpu/simd/attention_bf16_tiled.h"

namespace ingot::cpu {

namespace {

void direct(const AttentionItem& item) {
  item.kv.f32 ? kAttentionAvx512.direct(item) : attend_direct(item);
}

void tiled(const AttentionItem& item) {
  item.kv.f32 ? kAttentionAvx512.tiled(item) : attend_tiled(item);
}

void merge(const MergeItem& item) {
  kAttentionAvx512.merge(item);
}

}  // namespace

const AttentionKernels kAttentionAvx512Bf16 = {direct, tiled, merge};

}  // namespace ingot::cpu
