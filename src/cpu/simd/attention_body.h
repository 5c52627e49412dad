#pragma once

// The attention kernels over the vectors of the vec_*.h included before; see attention.h.
#include "cpu/simd/attention_direct.h"
#include "cpu/simd/attention_tiled.h"

namespace ingot::cpu {
namespace {

void merge_ranges(const MergeItem& item) {
  alignas(64) float o[kMaxHeadDim];
  Gathered all{kMasked, 0, o};
  for (int64_t r = 0; r < item.ranges; ++r) {
    float* part = const_cast<float*>(item.partial) + r * item.partial_stride;
    join(all, {part[0], part[1], part + 16}, static_cast<int>(padded_dim(item.dim)));
  }
  write_result(all, item.dim, item.out);
}

}  // namespace
}  // namespace ingot::cpu
