#pragma once

#include "cuda/device/mma.cuh"
#include "cuda/device/tile_fragments.cuh"
#include "cuda/device/tile_loaders.cuh"

// x times a matrix in tiles, for few rows of x: bound by reading the weight. A block goes through
// its items; four warps load weights and the rows of x ahead into a ring of slots, and eight
// multiply, a slice of K each. The sums of the slices meet in shared memory and are added in order
// by the warp whose turn it is. Weights are on their way before the kernel before this one has
// ended.
namespace ingot::cuda {

// Each of the eight warps that multiply.
template <int RowBlocks, int TokenTiles>
class TileMultiplier {
 public:
  __device__ TileMultiplier(const TileRing& ring)
      : ring_(ring),
        p_(ring.p),
        slice_(threadIdx.x / 32),
        lane_(threadIdx.x % 32),
        pieces_(ring.slices.count(slice_)) {}

  __device__ void run() {
    wait_for_previous_kernel();
    RingCursor at;
    for (int item = static_cast<int>(blockIdx.x); item < ring_.items; item += gridDim.x) {
      begin(item);
      float sums[RowBlocks][TokenTiles][4] = {};
      for (int step0 = 0; step0 < ring_.steps; step0 += p_.steps) {
        barrier_wait(ring_.weights_here(at.slot), at.phase);
        barrier_wait(ring_.x_here(at.slot), at.phase);
        multiply_slot(at.slot, step0, sums);
        __syncwarp();
        if (lane_ == 0) barrier_arrive(ring_.free(at.slot));
        at.next(p_.slots);
      }
      finish(sums);
    }
  }

 private:
  static constexpr bool kGrouped = kTileFormat.group != 0;
  // Steps of 16 columns: those that share a scale, and those whose weights are in registers.
  static constexpr int kPartSteps = kTileFormat.group == 64 ? 4 : 2;
  static constexpr int kLoadSteps = RowBlocks * TokenTiles < 8 ? 4 : kPartSteps;

  __device__ void multiply_slot(int slot, int step0,
                                float (&sums)[RowBlocks][TokenTiles][4]) const {
    if constexpr (kLoadApart) {
      const int end = min(step0 + p_.steps, ring_.steps);
#pragma unroll 1
      for (int step = step0; step < end; ++step) {
        if (step * kSlices + slice_ >= ring_.slices.pieces) break;
        const int place = (step - step0) * kSlices + slice_;
        multiply(ring_.weights(slot) + place * kTileFormat.piece_bytes(),
                 ring_.x(slot) + place * ring_.x_piece_bytes(), sums);
      }
    } else {
      const int count = min(p_.steps, pieces_ - step0);
      u32 weights = ring_.weights(slot) + slice_ * kTileFormat.piece_bytes();
      u32 x = ring_.x(slot) + slice_ * ring_.x_piece_bytes();
      // Small pieces wait for each other less when there are two at once.
#pragma unroll TokenTiles == 1 ? 2 : 1
      for (int i = 0; i < count; ++i) {
        multiply(weights, x, sums);
        weights += kSlices * kTileFormat.piece_bytes();
        x += kSlices * ring_.x_piece_bytes();
      }
    }
  }

  // Where this warp will add up one fragment of the item, and what it adds to it: early, since
  // loads take long while weights stream in.
  __device__ void begin(int item) {
    tokens_ = ring_.tokens(item);
    const int first_token = ring_.first_token(item);
#pragma unroll
    for (int n = 0; n < TokenTiles; ++n) {
      const int row = min(n * kTokenTile + lane_ % 8, tokens_ - 1);
      x_offset_[n] = row * kXRowBytes + ((lane_ / 8 ^ row % 8) << 4);
    }
    const int mine = (slice_ + kSlices - turn_) % kSlices;
    const int own_blocks = p_.swiglu ? 1 : RowBlocks;
    turn_ = (turn_ + own_blocks * TokenTiles) % kSlices;
    own_tile_ = mine / own_blocks;
    own_block_ = p_.swiglu ? 0 : mine % RowBlocks;
    if (own_tile_ >= TokenTiles) return;
    const int block = ring_.first_block(item) + own_block_;
    first_row_ = block * kTileRows + lane_ / 4;
    const int token = own_tile_ * kTokenTile + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * RowBlocks; ++i) {
      const int row = min(first_row_ + i * 8, p_.weight_rows - 1);
      bias_[i] = p_.bias ? p_.bias[row] : 0.0f;
      if constexpr (kTileFormat.row_scale)
        row_scale_[i] = reinterpret_cast<const float*>(
            static_cast<const u8*>(p_.weight) +
            tile_piece_total(kTileFormat, p_.weight_rows, p_.columns))[row];
    }
    // Outputs are rows of the weight, or of its gates.
    outputs_ = p_.swiglu ? p_.weight_rows / 2 : p_.weight_rows;
    first_output_ = p_.swiglu ? block / 2 * kTileRows + lane_ / 4 : first_row_;
    at_ = static_cast<i64>(first_token + token) * outputs_ + first_output_;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      stored_[e] = token + e % 2 < tokens_ && first_output_ + e / 2 * 8 < outputs_;
      residual_[e] = p_.residual && stored_[e]
                         ? to_float(static_cast<const OUT_TYPE*>(p_.residual)[at_ + place(e)])
                         : 0.0f;
    }
  }
  // Of element e of a fragment among outputs, from at_ on.
  __device__ i64 place(int e) const { return static_cast<i64>(e % 2) * outputs_ + e / 2 * 8; }

  __device__ void multiply(u32 weights, u32 x, float (&sums)[RowBlocks][TokenTiles][4]) const {
#pragma unroll 1
    for (int begin = 0; begin < 4; begin += kLoadSteps) {
      TileFragments<kLoadSteps> fragments[RowBlocks];
#pragma unroll
      for (int r = 0; r < RowBlocks; ++r)
        fragments[r].load(weights + r * ring_.sizes.weight_bytes, begin, lane_);
#pragma unroll
      for (int part = 0; part < kLoadSteps; part += kPartSteps) {
        u32 a[RowBlocks][kPartSteps][4];
#pragma unroll
        for (int r = 0; r < RowBlocks; ++r)
#pragma unroll
          for (int i = 0; i < kPartSteps; ++i) fragments[r].expand(part + i, a[r][i]);
#pragma unroll
        for (int n = 0; n < TokenTiles; ++n) {
          float group[RowBlocks][4] = {};
          multiply_part(a, x + (x_offset_[n] ^ (begin + part) * 32), group, sums, n);
          if constexpr (kGrouped) {
#pragma unroll
            for (int r = 0; r < RowBlocks; ++r)
#pragma unroll
              for (int e = 0; e < 4; ++e)
                sums[r][n][e] =
                    fmaf(fragments[r].scale(part / kPartSteps, e / 2), group[r][e], sums[r][n][e]);
          }
        }
      }
    }
  }
  // Steps of one group, or two without groups, with eight rows of x from address x on.
  __device__ void multiply_part(const u32 (&a)[RowBlocks][kPartSteps][4], u32 x,
                                float (&group)[RowBlocks][4],
                                float (&sums)[RowBlocks][TokenTiles][4], int n) const {
#pragma unroll
    for (int i = 0; i < kPartSteps; i += 2) {
      u32 b[4];
      load_matrices(x ^ i * 32, b);  // eight rows of x by four times eight columns
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int r = 0; r < RowBlocks; ++r)
          mma_bf16(kGrouped ? group[r] : sums[r][n], a[r][i + j], b[2 * j], b[2 * j + 1]);
    }
  }

  __device__ void finish(const float (&sums)[RowBlocks][TokenTiles][4]) {
    const u32 buffers = ring_.memory + p_.slots * ring_.sizes.slot_bytes;
#pragma unroll
    for (int n = 0; n < TokenTiles; ++n) {
      if (n * kTokenTile >= tokens_) break;
      const u32 buffer = buffers + buffer_ * ring_.sizes.sums_bytes;
      buffer_ ^= 1;  // read until the next barrier
#pragma unroll
      for (int r = 0; r < RowBlocks; ++r)
        store_shared4(buffer + ((slice_ * RowBlocks + r) * 32 + lane_) * 16, sums[r][n]);
      sync_first_threads<kLinearTilesConsumers * 32>();
      if (n == own_tile_) store(buffer);
    }
  }

  __device__ void add_slices(u32 buffer, int block, float (&total)[4]) const {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      float part[4];
      load_shared4(buffer + ((slice * RowBlocks + block) * 32 + lane_) * 16, part);
#pragma unroll
      for (int e = 0; e < 4; ++e) total[e] = slice == 0 ? part[e] : __fadd_rn(total[e], part[e]);
    }
  }
  // A product of rows first_row_ + 16 `block` and those 8 below with its scale and bias; no
  // contraction, so that every variant rounds alike.
  __device__ void scale_and_bias(int block, float (&total)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if constexpr (kTileFormat.row_scale)
        total[e] = __fmul_rn(total[e], row_scale_[2 * block + e / 2]);
      if (p_.bias) total[e] = __fadd_rn(total[e], bias_[2 * block + e / 2]);
    }
  }

  __device__ void store(u32 buffer) const {
    float total[4];
    add_slices(buffer, own_block_, total);
    scale_and_bias(0, total);
    if constexpr (RowBlocks == 2) {
      if (p_.swiglu) {
        float up[4];
        add_slices(buffer, 1, up);
        scale_and_bias(1, up);
#pragma unroll
        for (int e = 0; e < 4; ++e) total[e] = __fmul_rn(silu(total[e]), up[e]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!stored_[e]) continue;
      if (p_.residual) total[e] = __fadd_rn(total[e], residual_[e]);
      static_cast<OUT_TYPE*>(p_.out)[at_ + place(e)] = from_float<OUT_TYPE>(total[e]);
    }
  }

  const TileRing& ring_;
  const LinearTilesParams& p_;
  const int slice_;
  const int lane_;
  const int pieces_;  // of the slice
  int turn_ = 0;      // the warp that adds up the item's first fragment
  int buffer_ = 0;    // of partial sums
  // Of the item at hand.
  int tokens_;
  u32 x_offset_[TokenTiles];
  int own_tile_;
  int own_block_;
  int first_row_;
  int first_output_;
  int outputs_;
  i64 at_;
  float bias_[2 * RowBlocks];
  float row_scale_[2 * RowBlocks];
  float residual_[4];
  bool stored_[4];
};

template <int RowBlocks>
__device__ void multiply_tiles(const TileRing& ring) {
  if (ring.p.token_tiles == 1)
    TileMultiplier<RowBlocks, 1>(ring).run();
  else if (ring.p.token_tiles == 2)
    TileMultiplier<RowBlocks, 2>(ring).run();
  else
    TileMultiplier<RowBlocks, 4>(ring).run();
}

__device__ inline void linear_tiles(const LinearTilesParams& p) {
  extern __shared__ __align__(128) u8 shared[];
  const TileRing ring(p, shared_address(shared));
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  allow_next_kernel();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (kLoadApart && warp > kLinearTilesConsumers)
    load_x(ring);
  else if (kLoadApart && warp == kLinearTilesConsumers)
    load_weights(ring);
  else if (!kLoadApart && threadIdx.x >= kLinearTilesConsumers * 32)
    TileLoader(ring).run();
  else if (p.row_blocks == 2)
    multiply_tiles<2>(ring);
  else
    multiply_tiles<1>(ring);
}

}  // namespace ingot::cuda
