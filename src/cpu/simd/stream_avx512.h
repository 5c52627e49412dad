#pragma once

// One to four tokens of 8- and 4-bit formats straight from the packed stream. Expanding a slice
// first, as the tiles for more tokens do, makes loading and arithmetic take turns; here memory
// never rests.
#include "cpu/simd/matmul_avx512.h"
#include "cpu/simd/tile_avx512.h"

namespace ingot::cpu {

namespace {

inline __m512i iq4_values(__m512i nibbles) {
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(kIq4Values));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}
template <PackedKind K>
inline __m512i nibbles(__m512i v, bool high) {
  const __m512i n = _mm512_and_si512(high ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
  return K == PackedKind::kIq4Nl ? iq4_values(n) : n;
}

// Beside the loads where it is written: the compiler gathers its own prefetches into a burst, which
// waits for the memory that it asks for.
inline void prefetch_beside(const uint8_t* p) {
  asm volatile("prefetcht1 %0" : : "m"(*p) : "memory");
}

inline __m512 half16(const void* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(static_cast<const __m256i*>(p)));
}

// Low nibbles are the first half of a block's k, high ones the second; with groups of half a block
// (int4) the two halves are groups of one scale. Sums meet their scales in the order of matmul.h.
template <PackedKind K, int kTokens>
[[gnu::noinline]] void stream_tile(const TileCall& call) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kGroups = f.block_k / f.group;
  static_assert(kGroups == 1 || kGroups == 2);
  constexpr bool kBytesOfQ = K == PackedKind::kQ8_0;
  constexpr int kWords = kBytesOfQ ? f.block_k / 4 : f.block_k / 8;
  constexpr int kHeader = f.has_min ? 128 : 64;
  constexpr int kBytes = packed_block_bytes(f);
  const int32_t* x = static_cast<const int32_t*>(call.act.q) + call.k_begin / 4 * kTokens;
  const int32_t* init = call.act.init + call.k_begin / f.group * kTokens;
  const float* xs = call.act.scale + call.k_begin / 32 * kTokens;
  const float* xm = call.act.sum + call.k_begin / f.group * kTokens;
  const uint8_t* block = call.q;
  const uint8_t* ahead = call.prefetch_bytes > 0 ? call.prefetch : block;

  __m512 c[kTokens][2];
  for (int i = 0; i < kTokens; ++i)
    for (int h = 0; h < 2; ++h)
      c[i][h] = call.first ? _mm512_setzero_ps() : _mm512_load_ps(call.c + i * kPanelRows + 16 * h);
  for (int64_t k = 0; k < call.k; k += f.block_k, block += kBytes, ahead += kBytes) {
    prefetch_beside(ahead);
    if (f.has_min) prefetch_beside(ahead + 64);
    __m512i sum[kGroups][kTokens][2];
    for (int g = 0; g < kGroups; ++g)
      for (int i = 0; i < kTokens; ++i)
        sum[g][i][0] = sum[g][i][1] = _mm512_set1_epi32(init[g * kTokens + i]);
#pragma GCC unroll 8
    for (int w = 0; w < kWords; ++w)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const int at = kHeader + w * 128 + h * 64;
        prefetch_beside(ahead + at);
        const __m512i v = _mm512_load_si512(block + at);
        const __m512i low = kBytesOfQ ? v : nibbles<K>(v, false);
        const __m512i high = nibbles<K>(v, true);
#pragma GCC unroll 4
        for (int i = 0; i < kTokens; ++i) {
          __m512i& first = sum[0][i][h];
          first = _mm512_dpbusd_epi32(first, low, _mm512_set1_epi32(x[w * kTokens + i]));
          if constexpr (kBytesOfQ) continue;
          __m512i& second = sum[kGroups - 1][i][h];
          second =
              _mm512_dpbusd_epi32(second, high, _mm512_set1_epi32(x[(kWords + w) * kTokens + i]));
        }
      }
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m512 scale = half16(block + 32 * h);
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g)
#pragma GCC unroll 4
        for (int i = 0; i < kTokens; ++i) {
          const __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[g][i][h]), scale);
          c[i][h] = _mm512_fmadd_ps(t, _mm512_set1_ps(xs[g * kTokens + i]), c[i][h]);
          if constexpr (f.has_min)
            c[i][h] = _mm512_fmadd_ps(half16(block + 64 + 32 * h),
                                      _mm512_set1_ps(xm[g * kTokens + i]), c[i][h]);
        }
    }
    x += f.block_k / 4 * kTokens;
    init += kGroups * kTokens;
    xs += f.block_k / 32 * kTokens;
    xm += kGroups * kTokens;
  }
  for (int i = 0; i < kTokens; ++i)
    for (int h = 0; h < 2; ++h) _mm512_store_ps(call.c + i * kPanelRows + 16 * h, c[i][h]);
}

using StreamTile = void (*)(const TileCall&);
template <PackedKind K>
inline StreamTile stream_tiles(int tokens) {
  static constexpr StreamTile tiles[] = {stream_tile<K, 1>, stream_tile<K, 2>, stream_tile<K, 3>,
                                         stream_tile<K, 4>};
  return tiles[tokens - 1];
}

}  // namespace

}  // namespace ingot::cpu
