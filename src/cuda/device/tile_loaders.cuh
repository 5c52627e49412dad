#pragma once

#include "cuda/device/tile_ring.cuh"

// Weights and the rows of x into the ring, in the two ways that won (docs/performance.md): a warp
// of their own for weights keeps memory busy where they are many bytes, while the loaders of x are
// held up; small 4-bit pieces are soon here, and all warps on x spare time.
namespace ingot::cuda {

// Loading apart, the weights: by one warp; where there is a copy engine, by its first lane.
__device__ inline void load_weights(const TileRing& ring) {
  const LinearTilesParams& p = ring.p;
  const int lane = threadIdx.x % 32;
  if (kHasBulkCopies && lane > 0) return;
  const int last_block = static_cast<int>(tile_row_blocks(p.weight_rows)) - 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const u64 policy = policy_of(ring.token_blocks == 1);
#endif
  RingCursor at;
  RingCursor arrived;
  int copies = 0;
  for (int item = static_cast<int>(blockIdx.x); item < ring.items; item += gridDim.x) {
    for (int step = 0; step < ring.steps; step += p.steps) {
      if (copies == p.slots) wait_for_previous_kernel();  // nothing becomes free before
      if (copies >= p.slots) barrier_wait(ring.free(at.slot), at.phase ^ 1);
      // Small loads of others would stand behind all that is asked for at once.
      if (copies >= p.window) {
        barrier_wait(ring.weights_here(arrived.slot), arrived.phase);
        arrived.next(p.slots);
      }
      const int first = step * kSlices;
      const int bytes =
          (min((step + p.steps) * kSlices, ring.slices.pieces) - first) * kTileFormat.piece_bytes();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      barrier_expect(ring.weights_here(at.slot), p.row_blocks * bytes);
#endif
      for (int r = 0; r < p.row_blocks; ++r) {
        // A block past the last one is the last one again; nobody stores it.
        const int block = min(ring.first_block(item) + r, last_block);
        const u8* from =
            static_cast<const u8*>(p.weight) +
            (static_cast<i64>(block) * ring.slices.pieces + first) * kTileFormat.piece_bytes();
        const u32 to = ring.weights(at.slot) + r * ring.sizes.weight_bytes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        copy_bulk(to, from, bytes, ring.weights_here(at.slot), policy);
#else
        for (int b = lane * 16; b < bytes; b += 32 * 16) copy16(to + b, from + b, 16);
#endif
      }
      if (!kHasBulkCopies) copies_arrive(ring.weights_here(at.slot));
      at.next(p.slots);
      ++copies;
    }
  }
  if (!kHasBulkCopies) copies_wait();
}

// Eight values of a row from column k on, zero past the last one; rows at any address.
__device__ inline void put_x8(u32 to, const bf16* row, int k, int columns) {
  u32 words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (k + i < columns) words[i / 2] |= static_cast<u32>(row[k + i].bits) << (i % 2 * 16);
  store_shared4(to, words);
}

// Loading apart, x: by three warps, slices in turn. Units of 16 bytes of a row are swizzled by its
// number, so that ldmatrix meets no bank twice.
__device__ inline void load_x(const TileRing& ring) {
  const LinearTilesParams& p = ring.p;
  const int loader = static_cast<int>(threadIdx.x) / 32 - kLinearTilesConsumers - 1;
  const int unit = threadIdx.x % 8;
  const bool aligned = p.columns % 8 == 0;
  wait_for_previous_kernel();
  RingCursor at;
  int copies = 0;
  for (int item = static_cast<int>(blockIdx.x); item < ring.items; item += gridDim.x) {
    const int tokens = ring.tokens(item);
    const bf16* x =
        static_cast<const bf16*>(p.x) + static_cast<i64>(ring.first_token(item)) * p.columns;
    for (int step0 = 0; step0 < ring.steps; step0 += p.steps) {
      if (copies >= p.slots) barrier_wait(ring.free(at.slot), at.phase ^ 1);
      const int end = min(step0 + p.steps, ring.steps);
      for (int step = step0; step < end; ++step)
        for (int slice = loader; slice < kSlices; slice += kXLoaders) {
          if (step * kSlices + slice >= ring.slices.pieces) break;
          const int k = (ring.slices.first_piece(slice) + step) * kTileColumns + unit * 8;
          const int bytes = max(0, min(16, (p.columns - k) * 2));
          const u32 piece =
              ring.x(at.slot) + ((step - step0) * kSlices + slice) * ring.x_piece_bytes();
          for (int t = threadIdx.x % 32 / 8; t < tokens; t += 4) {
            const u32 to = piece + t * kXRowBytes + ((unit ^ (t % 8)) << 4);
            const bf16* row = x + static_cast<i64>(t) * p.columns;
            if (aligned)
              copy16(to, bytes > 0 ? row + k : row, bytes);
            else
              put_x8(to, row, k, p.columns);
          }
        }
      if (aligned)
        copies_arrive(ring.x_here(at.slot));
      else
        barrier_arrive(ring.x_here(at.slot));
      at.next(p.slots);
      ++copies;
    }
  }
  copies_wait();
}

// Where a block stands in its items.
struct TilePosition {
  int item;
  int step = 0;
  __device__ void next(const TileRing& ring) {
    step += ring.p.steps;
    if (step < ring.steps) return;
    step = 0;
    item += static_cast<int>(gridDim.x);
  }
};

// Loading together, by four warps. Each thread has one unit of 16 bytes in the pieces of one slice,
// of every other row of x; the first thread, where there is a copy engine, also has the weights.
class TileLoader {
 public:
  __device__ explicit TileLoader(const TileRing& ring)
      : ring_(ring),
        p_(ring.p),
        thread_(static_cast<int>(threadIdx.x) - kLinearTilesConsumers * 32),
        unit_(thread_ % 8),
        slice_(thread_ / 8 % kSlices),
        parity_(thread_ / (8 * kSlices)),
        pieces_(ring.slices.count(slice_)),
        first_column_(ring.slices.first_piece(slice_) * kTileColumns + unit_ * 8),
        last_block_(static_cast<int>(tile_row_blocks(p_.weight_rows)) - 1) {}

  __device__ void run() {
    TilePosition at{static_cast<int>(blockIdx.x)};
    int ahead = 0;
    for (; ahead < p_.slots && at.item < ring_.items; ++ahead, at.next(ring_))
      put_weights(at, ahead, ahead);
    wait_for_previous_kernel();
    at = {static_cast<int>(blockIdx.x)};
    RingCursor cursor;
    for (int copies = 0; at.item < ring_.items; ++copies, at.next(ring_)) {
      if (copies >= ahead) {
        barrier_wait(ring_.free(cursor.slot), cursor.phase ^ 1);
        put_weights(at, cursor.slot, copies);
      }
      put_x(at, cursor.slot);
      cursor.next(p_.slots);
    }
    copies_wait();
  }

 private:
  __device__ void put_weights(const TilePosition& at, int slot, int copies) {
    if (kHasBulkCopies && thread_ > 0) return;
    // Small loads of others would stand behind all that is asked for at once.
    if (copies >= p_.window) {
      barrier_wait(ring_.weights_here(arrived_.slot), arrived_.phase);
      arrived_.next(p_.slots);
    }
    const int first = at.step * kSlices;
    const int bytes = (min((at.step + p_.steps) * kSlices, ring_.slices.pieces) - first) *
                      kTileFormat.piece_bytes();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const u64 policy = policy_of(ring_.token_blocks == 1);
    barrier_expect(ring_.weights_here(slot), p_.row_blocks * bytes);
#endif
    for (int r = 0; r < p_.row_blocks; ++r) {
      // A block past the last one is the last one again; nobody stores it.
      const int block = min(ring_.first_block(at.item) + r, last_block_);
      const u8* from =
          static_cast<const u8*>(p_.weight) +
          (static_cast<i64>(block) * ring_.slices.pieces + first) * kTileFormat.piece_bytes();
      const u32 to = ring_.weights(slot) + r * ring_.sizes.weight_bytes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      copy_bulk(to, from, bytes, ring_.weights_here(slot), policy);
#else
      for (int b = thread_ * 16; b < bytes; b += kLinearTilesLoaders * 32 * 16)
        copy16(to + b, from + b);
#endif
    }
    if (!kHasBulkCopies) copies_arrive(ring_.weights_here(slot));
  }

  __device__ void put_x(const TilePosition& at, int slot) {
    if (at.step == 0) {
      tokens_ = ring_.tokens(at.item);
      x_ = static_cast<const bf16*>(p_.x) +
           static_cast<i64>(ring_.first_token(at.item) + parity_) * p_.columns + first_column_;
    }
    // Units of a row are swizzled by its number, so that ldmatrix meets no bank twice.
    u32 to = ring_.x(slot) + slice_ * ring_.x_piece_bytes() + parity_ * kXRowBytes +
             ((unit_ ^ parity_) << 4);
    const bool aligned = p_.columns % 8 == 0;
    const int count = min(p_.steps, pieces_ - at.step);
    const u32 next = kSlices * ring_.x_piece_bytes();
    const int left = p_.columns - first_column_ - at.step * kTileColumns;
    const bf16* from = x_ + at.step * kTileColumns;
    for (int i = 0; i < count; ++i, to += next, from += kTileColumns) {
      const bool inside = i * kTileColumns < left;
      if (!aligned)
        move_rows(to, from, left - i * kTileColumns);
      else if (tokens_ > 2)
        copy_rows(to, inside ? from : x_, inside);
      else if (parity_ < tokens_)
        inside ? copy16(to, from) : zero16(to, x_);
    }
    if (aligned)
      copies_arrive(ring_.x_here(slot));
    else
      barrier_arrive(ring_.x_here(slot));
  }

  __device__ void copy_rows(u32 to, const bf16* from, bool inside) const {
    const i64 stride = 2 * static_cast<i64>(p_.columns);
#pragma unroll 1
    for (int t = parity_; t < tokens_; t += 8) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (t + 2 * j < tokens_) {
          const u32 row = (to ^ j << 5) + j * 2 * kXRowBytes;
          inside ? copy16(row, from + j * stride) : zero16(row, from);
        }
      to += 8 * kXRowBytes;
      from += 4 * stride;
    }
  }

  // Rows that begin at any address, of which `left` columns are there.
  __device__ void move_rows(u32 to, const bf16* from, int left) const {
    for (int t = parity_; t < tokens_; t += 2, from += 2 * static_cast<i64>(p_.columns)) {
      u32 words[4] = {};
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i < left) words[i / 2] |= static_cast<u32>(from[i].bits) << (i % 2 * 16);
      store_shared4((to ^ t % 8 / 2 << 5) + (t - parity_) * kXRowBytes, words);
    }
  }

  const TileRing& ring_;
  const LinearTilesParams& p_;
  const int thread_;
  const int unit_;
  const int slice_;
  const int parity_;
  const int pieces_;        // of the slice
  const int first_column_;  // the slice's, at this thread's unit
  const int last_block_;
  RingCursor arrived_;  // weights
  int tokens_ = 0;
  const bf16* x_ = nullptr;  // this thread's first row and column of the item
};

}  // namespace ingot::cuda
