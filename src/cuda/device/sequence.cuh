#pragma once

#include "cuda/device/float.cuh"

namespace ingot::cuda {

// By a whole warp: the last sequence that starts at or before `row`. query_start ascends, and an
// empty sequence starts where the next one does. Of up to 32 sequences in one load.
__device__ inline int sequence_of(const int* query_start, int sequences, int row) {
  const int lane = threadIdx.x % 32;
  int first = 0;
  int count = sequences;
  while (count > 1) {
    const int step = (count + 31) / 32;
    const int at = lane * step;
    const bool before = at < count && query_start[first + at] <= row;
    const int last = max(__popc(__ballot_sync(0xffffffffu, before)) - 1, 0) * step;
    first += last;
    count = min(step, count - last);
  }
  return first;
}

}  // namespace ingot::cuda
