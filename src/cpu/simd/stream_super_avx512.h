#pragma once

// stream_avx512.h for the super-blocks of q4_k, q5_k and q6_k: quants straight from the packed
// stream, scales expanded a slice ahead (they are a tenth of the bytes and most of the shuffling).
#include "cpu/simd/stream_avx512.h"

namespace ingot::cpu {

namespace {

constexpr int64_t kPlane = 4 * kPanelRows;  // bytes of a word plane

// The activations of a tile, from one group on.
template <int kTokens, int kGroup>
struct StreamActs {
  const int32_t* x;
  const int32_t* init;
  const float* scale;
  const float* sum;

  StreamActs(const ActTile& act, int64_t k)
      : x(static_cast<const int32_t*>(act.q) + k / 4 * kTokens),
        init(act.init + k / kGroup * kTokens),
        scale(act.scale + k / 32 * kTokens),
        sum(act.sum + k / kGroup * kTokens) {}
  __m512i word(int64_t w, int i) const { return _mm512_set1_epi32(x[w * kTokens + i]); }
  __m512i start(int64_t group, int i) const { return _mm512_set1_epi32(init[group * kTokens + i]); }
};

// One group's sum meets its scales, 16 rows of one token, in the order of matmul.h.
template <PackedKind K, int kTokens, int kGroup>
inline __m512 meet(__m512i sum, const float* scales, const StreamActs<kTokens, kGroup>& acts,
                   int64_t group, int i, __m512 c) {
  const __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_load_ps(scales));
  c = _mm512_fmadd_ps(t, _mm512_set1_ps(acts.scale[group * kGroup / 32 * kTokens + i]), c);
  if constexpr (format_of(K).has_min)
    c = _mm512_fmadd_ps(_mm512_load_ps(scales + kPanelRows),
                        _mm512_set1_ps(acts.sum[group * kTokens + i]), c);
  return c;
}

template <int kBy>
inline __m512i shifted_left(__m512i v) {
  if constexpr (kBy >= 0)
    return _mm512_slli_epi16(v, kBy);
  else
    return _mm512_srli_epi16(v, -kBy);
}

// Bits `kFrom`.. of every byte, at bit 4: what is above the nibble of q5_k (1 bit) and q6_k (2).
template <int kFrom, int kBits>
inline __m512i above_nibble(__m512i v) {
  return _mm512_and_si512(shifted_left<4 - kFrom>(v),
                          _mm512_set1_epi8(static_cast<char>(((1 << kBits) - 1) << 4)));
}
template <bool kHigh>
inline __m512i nibble(__m512i v) {
  return _mm512_and_si512(kHigh ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
}

template <int kTokens>
using StreamSums = __m512[kTokens][2];

// 64 k of q4_k or q5_k: two groups, in low and in high nibbles. `kPart` is which 64 of the 256.
template <PackedKind K, int kTokens, int kPart>
inline void add_k64(const uint8_t* block, const uint8_t* ahead, const float* scales,
                    const StreamActs<kTokens, 32>& acts, StreamSums<kTokens>& c) {
  constexpr bool kFifth = K == PackedKind::kQ5K;
  constexpr int64_t kHeader = 128 + 3 * kPlane;  // d, dmin, scales and minimums
  constexpr int64_t kQuants = kHeader + (kFifth ? 8 : 0) * kPlane + kPart * 8 * kPlane;
  __m512i sum[2][kTokens][2];
  for (int g = 0; g < 2; ++g)
    for (int i = 0; i < kTokens; ++i) sum[g][i][0] = sum[g][i][1] = acts.start(2 * kPart + g, i);
#pragma GCC unroll 8
  for (int w = 0; w < 8; ++w)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const int64_t at = kQuants + w * kPlane + h * 64;
      prefetch_beside(ahead + at);
      const __m512i v = _mm512_load_si512(block + at);
      __m512i low = nibble<false>(v);
      __m512i high = nibble<true>(v);
      if constexpr (kFifth) {
        const int64_t bits_at = kHeader + w * kPlane + h * 64;
        if (kPart == 0) prefetch_beside(ahead + bits_at);
        const __m512i bits = _mm512_load_si512(block + bits_at);
        low = _mm512_or_si512(low, above_nibble<2 * kPart, 1>(bits));
        high = _mm512_or_si512(high, above_nibble<2 * kPart + 1, 1>(bits));
      }
#pragma GCC unroll 4
      for (int i = 0; i < kTokens; ++i) {
        const int word = kPart * 16 + w;
        sum[0][i][h] = _mm512_dpbusd_epi32(sum[0][i][h], low, acts.word(word, i));
        sum[1][i][h] = _mm512_dpbusd_epi32(sum[1][i][h], high, acts.word(word + 8, i));
      }
    }
#pragma GCC unroll 2
  for (int g = 0; g < 2; ++g)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 4
      for (int i = 0; i < kTokens; ++i) {
        const int group = 2 * kPart + g;
        const float* at = scales + group * 2 * kPanelRows + 16 * h;
        c[i][h] = meet<K>(sum[g][i][h], at, acts, group, i, c[i][h]);
      }
}

// Four groups of 16 of q6_k for 16 rows: k 16 kPart.. of each 32 of a half of the super-block. They
// are groups kPart, kPart + 2 .. of the half.
template <int kTokens, int kPart>
inline void sum_q6(const uint8_t* block, const uint8_t* ahead, int half, int h,
                   const StreamActs<kTokens, 16>& acts, __m512i (&sums)[8][kTokens]) {
  constexpr int64_t kHeader = 64 + 4 * kPlane;  // d, scales
  const int64_t low_at = kHeader + half * 16 * kPlane + h * 64;
  const int64_t high_at = kHeader + (32 + half * 8) * kPlane + h * 64;
  __m512i sum[4][kTokens];
  for (int s = 0; s < 4; ++s)
    for (int i = 0; i < kTokens; ++i) sum[s][i] = acts.start(half * 8 + s * 2 + kPart, i);
#pragma GCC unroll 4
  for (int w = kPart * 4; w < kPart * 4 + 4; ++w) {
    const int64_t at[] = {low_at + w * kPlane, low_at + (w + 8) * kPlane, high_at + w * kPlane};
    for (const int64_t place : at) prefetch_beside(ahead + place);
    const __m512i a = _mm512_load_si512(block + at[0]);
    const __m512i b = _mm512_load_si512(block + at[1]);
    const __m512i top = _mm512_load_si512(block + at[2]);
    const __m512i q[] = {_mm512_or_si512(nibble<false>(a), above_nibble<0, 2>(top)),
                         _mm512_or_si512(nibble<false>(b), above_nibble<2, 2>(top)),
                         _mm512_or_si512(nibble<true>(a), above_nibble<4, 2>(top)),
                         _mm512_or_si512(nibble<true>(b), above_nibble<6, 2>(top))};
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s)
#pragma GCC unroll 4
      for (int i = 0; i < kTokens; ++i)
        sum[s][i] = _mm512_dpbusd_epi32(sum[s][i], q[s], acts.word(half * 32 + s * 8 + w, i));
  }
  for (int s = 0; s < 4; ++s)
    for (int i = 0; i < kTokens; ++i) sums[s * 2 + kPart][i] = sum[s][i];
}

template <int kTokens>
inline void add_q6(const uint8_t* block, const uint8_t* ahead, const float* scales,
                   const StreamActs<kTokens, 16>& acts, StreamSums<kTokens>& c) {
  for (int half = 0; half < 2; ++half)
    for (int h = 0; h < 2; ++h) {
      __m512i sums[8][kTokens];
      sum_q6<kTokens, 0>(block, ahead, half, h, acts, sums);
      sum_q6<kTokens, 1>(block, ahead, half, h, acts, sums);
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g)
#pragma GCC unroll 4
        for (int i = 0; i < kTokens; ++i) {
          const int group = half * 8 + g;
          const float* at = scales + group * kPanelRows + 16 * h;
          c[i][h] = meet<PackedKind::kQ6K>(sums[g][i], at, acts, group, i, c[i][h]);
        }
    }
}

template <PackedKind K, int kTokens>
[[gnu::noinline]] void stream_super(const TileCall& call) {
  constexpr PackedFormat f = format_of(K);
  constexpr int64_t kBytes = packed_block_bytes(f);
  constexpr int64_t kHeader = f.has_min ? 128 + 3 * kPlane : 64 + 4 * kPlane;
  const uint8_t* block = call.q;
  const uint8_t* ahead = call.prefetch_bytes > 0 ? call.prefetch : block;
  const float* scales = call.scale;
  StreamSums<kTokens> c;
  for (int i = 0; i < kTokens; ++i)
    for (int h = 0; h < 2; ++h)
      c[i][h] = call.first ? _mm512_setzero_ps() : _mm512_load_ps(call.c + i * kPanelRows + 16 * h);
  for (int64_t k = 0; k < call.k; k += 256, block += kBytes, ahead += kBytes) {
    // What `expand` will read.
    for (int64_t at = 0; at < kHeader; at += 64) prefetch_beside(ahead + at);
    const StreamActs<kTokens, f.group> acts(call.act, call.k_begin + k);
    if constexpr (K == PackedKind::kQ6K) {
      add_q6<kTokens>(block, ahead, scales, acts, c);
    } else {
      add_k64<K, kTokens, 0>(block, ahead, scales, acts, c);
      add_k64<K, kTokens, 1>(block, ahead, scales, acts, c);
      add_k64<K, kTokens, 2>(block, ahead, scales, acts, c);
      add_k64<K, kTokens, 3>(block, ahead, scales, acts, c);
    }
    scales += 256 / f.group * kPanelRows * (f.has_min ? 2 : 1);
  }
  for (int i = 0; i < kTokens; ++i)
    for (int h = 0; h < 2; ++h) _mm512_store_ps(call.c + i * kPanelRows + 16 * h, c[i][h]);
}

// More tokens than two are faster through slices: their activations and sums outgrow the registers.
template <PackedKind K>
inline StreamTile super_tiles(int tokens) {
  static constexpr StreamTile tiles[] = {stream_super<K, 1>, stream_super<K, 2>};
  return tiles[tokens - 1];
}

}  // namespace

}  // namespace ingot::cpu
