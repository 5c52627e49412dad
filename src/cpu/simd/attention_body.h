#pragma once

// The attention kernels over the vectors of the vec_*.h included before; see attention.h.
#include "cpu/simd/attention_direct.h"
#include "cpu/simd/attention_int8.h"
#include "cpu/simd/attention_pairs_direct.h"
#include "cpu/simd/attention_pairs_tiled.h"
#include "cpu/simd/attention_tiled.h"

namespace ingot::cpu {
namespace {

void merge_ranges(const MergeItem& item) {
  alignas(64) float o[kMaxHeadDim];
  Gathered all{kMasked, 0, o};
  for (int64_t r = 0; r < item.parts; ++r) {
    float* part = const_cast<float*>(item.partial) + r * item.partial_stride;
    join(all, {part[0], part[1], part + 16}, static_cast<int>(padded_dim(item.dim)));
  }
  write_result(all, item.dim, item.out);
}

template <class A>
constexpr AttentionKernels kPairKernels = {attend_pairs_direct<A>, attend_pairs_tiled<A>};

// By KvStore.
constexpr AttentionTier kAttention = {{{attend_direct<StoreF32>, attend_tiled<StoreF32>},
                                       {attend_direct<StoreBf16>, attend_tiled<StoreBf16>},
                                       {attend_direct<StoreInt8>, attend_tiled<StoreInt8>},
                                       {attend_direct<StoreE4m3>, attend_tiled<StoreE4m3>}},
                                      kPairKernels<Int8Pairs<TierProducts>>,
                                      merge_ranges};

}  // namespace
}  // namespace ingot::cpu
