#pragma once

#include "cuda/device/mma.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/device/tile_layout.cuh"

// A lane's part of a piece, from shared memory to the A operands of its four steps. Quants become
// bf16 without rounding, so that products are those of the format's own numbers.
namespace ingot::cuda {

// Of `Steps` of the four steps of a piece, two or all.
template <int Steps>
struct TileFragments {
  static constexpr int kWords = TILE_BITS * Steps / 4;
  static constexpr int kGroups = kTileFormat.groups() * Steps / 4;
  u32 words[kWords];
  float scales[kGroups > 0 ? kGroups : 1][2];  // of groups, rows g and g + 8

  __device__ void load(u32 piece, int first_step, int lane) {
    // Sixteen bytes of a lane are one step in 16 bit, two in 8, four in 4.
    if constexpr (kWords >= 4) {
#pragma unroll
      for (int i = 0; i < kWords; i += 4)
        load_shared4(piece + ((first_step * TILE_BITS / 16 + i / 4) * 32 + lane) * 16, words + i);
    } else {
      load_shared2(piece + lane * 16 + first_step * 4, words);
    }
    if constexpr (kGroups > 0) {
      u32 pairs[2];
      const u32 at = piece + tile_scale_byte(kTileFormat, lane / 4, first_step / 2);
      if constexpr (kGroups == 2)
        load_shared2(at, pairs);
      else
        load_shared1(at, pairs);
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        scales[i][0] = to_float(f16{static_cast<u16>(pairs[i])});
        scales[i][1] = to_float(f16{static_cast<u16>(pairs[i] >> 16)});
      }
    }
  }

  __device__ float scale(int group, int half) const { return scales[group][half]; }

  // A of a step, counted from the first loaded.
  __device__ void expand(int step, u32 (&a)[4]) const {
    if constexpr (TILE_BITS == 16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = words[step * 4 + i];
    } else if constexpr (TILE_BITS == 8) {
      // With 0x43 above it, a byte is 128 + its low bits as bf16, which has 7 of them; its own top
      // bit alone there is 128 or 256. The difference is the signed byte.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u32 pair = __byte_perm(words[step * 2 + i / 2], 0x43434343u, i % 2 ? 0x4342 : 0x4140);
        a[i] = fma_bf16x2(pair & 0xff80ff80u, 0xbf80bf80u, pair & 0xff7fff7fu);
      }
    } else {
      // Likewise 128 + nibble, less 136.
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[i] = fma_bf16x2(and_or(words[step] >> (4 * i), 0x000f000fu, 0x43004300u), 0x3f803f80u,
                          0xc308c308u);
    }
  }
};

}  // namespace ingot::cuda
