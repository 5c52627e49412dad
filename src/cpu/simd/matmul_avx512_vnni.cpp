// The AVX-512 tier with VNNI: integer weights, as unsigned bytes, by vpdpbusd.
#include "cpu/simd/matmul_avx512.h"
#include "cpu/simd/tile_avx512.h"

namespace ingot::cpu {

namespace {

constexpr int kFewTokens = 4;  // nibbles are unpacked in registers
constexpr int kAhead = 6144;   // bytes that prefetches run ahead of the stream

bool floats(const PackedFormat& f, Compute compute) {
  return f.is_float || compute == Compute::kF32;
}
// Stored as the tile reads them.
bool in_place(const PackedFormat& f) {
  return f.kind == PackedKind::kInt8 || f.kind == PackedKind::kQ8_0;
}
// Formats with code of their own here; the others go through the loaders of the AVX2 tier.
bool has_direct(PackedKind kind) {
  return kind == PackedKind::kQ8_0 || kind == PackedKind::kQ4_0 || kind == PackedKind::kQ4_1 ||
         kind == PackedKind::kInt4 || kind == PackedKind::kIq4Nl;
}

MatmulPlan plan(const PackedFormat& f, Compute compute, int64_t tokens) {
  if (floats(f, compute)) return plan_floats_avx512(f, tokens);
  // Short slices for few tokens: loading and arithmetic alternate in L1 and memory never rests.
  // Long ones for many: the sums of a tile stay in L1 meanwhile.
  const int slice_k = tokens <= kFewTiles * kTokens512 ? 512 : 2048;
  const int groups = f.group == 0 ? 0 : slice_k / f.group * (f.has_min ? 2 : 1);
  return {.tile_tokens = kTokens512,
          .direct_tokens = has_direct(f.kind) ? kFewTokens : 0,
          .slice_k = slice_k,
          .value_bytes = 1,
          .slice_bytes = in_place(f) ? 0 : slice_k * kPanelRows,
          .slice_floats = groups * kPanelRows,
          .in_place = in_place(f)};
}

void quantise(const QuantiseCall& call) {
  if (floats(*call.format, call.compute)) return quantise_floats_avx512(call);
  quantise_bytes_avx512(call);
}

inline void dot(__m512i& sum, __m512i w, __m512i x) {
  asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
}
inline __m512i load(const void* p) {
  return _mm512_load_si512(p);
}
inline __m512i splat(const void* p) {
  int v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}
inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
inline __m512 half16(const void* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(static_cast<const __m256i*>(p)));
}

constexpr int header_bytes(PackedKind kind) {
  return kind == PackedKind::kQ4_1 ? 128 : 64;
}

// The table of quant/iq4_nl.cpp, plus 128.
inline __m512i iq4_values(__m512i nibbles) {
  const __m128i table =
      _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}
template <PackedKind K>
inline __m512i nibbles(__m512i v, bool high) {
  const __m512i n = _mm512_and_si512(high ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15));
  return K == PackedKind::kIq4Nl ? iq4_values(n) : n;
}

// Few tokens, f32 sums in registers. A group's steps come from `words` planes at q; int4 has two
// groups in one block's nibbles and reads the block twice.
template <PackedKind K, int kTokens, bool kHigh>
[[gnu::always_inline]] inline void dot_group(const uint8_t* q, const int8_t* x,
                                             __m512i (&a)[kTokens][2]) {
  constexpr bool kBytes = K == PackedKind::kQ8_0;
  constexpr bool kWide = K == PackedKind::kInt4;
  const auto step = [&](int s, __m512i w0, __m512i w1) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int i = 0; i < kTokens; ++i) {
      const __m512i v = splat(x + 4 * (s * kTokens + i));
      dot(a[i][0], w0, v);
      dot(a[i][1], w1, v);
    }
  };
#pragma GCC unroll 8
  for (int j = 0; j < (kBytes || kWide ? 8 : 4); ++j) {
    // One prefetch beside each load: many in a row fill the line buffers and hold the loads up.
    if constexpr (!kHigh) {
      prefetch(q + kAhead + 128 * j);
      prefetch(q + kAhead + 128 * j + 64);
    }
    const __m512i w0 = load(q + 128 * j);
    const __m512i w1 = load(q + 128 * j + 64);
    if constexpr (kBytes) {
      step(j, w0, w1);
    } else if constexpr (kWide) {
      step(j, nibbles<K>(w0, kHigh), nibbles<K>(w1, kHigh));
    } else {
      step(j, nibbles<K>(w0, false), nibbles<K>(w1, false));
      step(4 + j, nibbles<K>(w0, true), nibbles<K>(w1, true));
    }
  }
}

// The f32 steps of matmul.h, those of mm_half.
template <bool kMin>
inline __m512 add_group(__m512 sum, __m512i d, __m512 ws, __m512 wm, __m512 xs, __m512 xm) {
  sum = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(d), ws), xs, sum);
  return kMin ? _mm512_fmadd_ps(wm, xm, sum) : sum;
}

template <bool kIsHigh>
struct Nibble {
  static constexpr bool kHigh = kIsHigh;
};

template <PackedKind K, int kTokens>
[[gnu::noinline]] void direct_tokens(const DirectCall& call) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kHeader = header_bytes(K);
  const uint8_t* block = call.panel;
  const auto* x = static_cast<const int8_t*>(call.act.q);
  const int32_t* init = call.act.init;
  const float* xs = call.act.scale;
  const float* xm = call.act.sum;
  __m512 sum[kTokens][2];
#pragma GCC unroll 4
  for (int i = 0; i < kTokens; ++i) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  const auto group = [&](auto high) __attribute__((always_inline)) {
    __m512i a[kTokens][2];
#pragma GCC unroll 4
    for (int i = 0; i < kTokens; ++i) a[i][0] = a[i][1] = splat(init + i);
    dot_group<K, kTokens, decltype(high)::kHigh>(block + kHeader, x, a);
    const __m512 s0 = half16(block);
    const __m512 s1 = half16(block + 32);
    const __m512 m0 = f.has_min ? half16(block + 64) : s0;
    const __m512 m1 = f.has_min ? half16(block + 96) : s1;
#pragma GCC unroll 4
    for (int i = 0; i < kTokens; ++i) {
      const __m512 vs = _mm512_set1_ps(xs[i]);
      const __m512 vm = f.has_min ? _mm512_set1_ps(xm[i]) : vs;
      sum[i][0] = add_group<f.has_min>(sum[i][0], a[i][0], s0, m0, vs, vm);
      sum[i][1] = add_group<f.has_min>(sum[i][1], a[i][1], s1, m1, vs, vm);
    }
    x += 32 * kTokens;
    init += kTokens;
    xs += kTokens;
    xm += kTokens;
  };
  for (int64_t k = 0; k < call.padded_k; k += f.block_k, block += packed_block_bytes(f)) {
    for (int i = 0; i < kHeader; i += 64) prefetch(block + kAhead + i);
    group(Nibble<false>{});
    if constexpr (f.block_k == 64) group(Nibble<true>{});
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTokens; ++i) {
    _mm512_store_ps(call.c + i * kPanelRows, sum[i][0]);
    _mm512_store_ps(call.c + i * kPanelRows + 16, sum[i][1]);
  }
}

template <PackedKind K>
void direct_as(const DirectCall& call) {
  static constexpr void (*kernels[])(const DirectCall&) = {
      direct_tokens<K, 1>, direct_tokens<K, 2>, direct_tokens<K, 3>, direct_tokens<K, 4>};
  kernels[call.act.tokens - 1](call);
}

void direct(const DirectCall& call) {
  switch (call.format->kind) {
    case PackedKind::kQ8_0:
      return direct_as<PackedKind::kQ8_0>(call);
    case PackedKind::kQ4_0:
      return direct_as<PackedKind::kQ4_0>(call);
    case PackedKind::kQ4_1:
      return direct_as<PackedKind::kQ4_1>(call);
    case PackedKind::kInt4:
      return direct_as<PackedKind::kInt4>(call);
    case PackedKind::kIq4Nl:
      return direct_as<PackedKind::kIq4Nl>(call);
    default:
      return;
  }
}

// Scales (and nibbles) of the formats with their own code.
template <PackedKind K>
[[gnu::noinline]] void expand_as(const ExpandCall& call) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kBytes = packed_block_bytes(f);
  constexpr int kHeader = header_bytes(K);
  const uint8_t* block = call.blocks;
  uint8_t* q = call.q;
  float* scale = call.scale;
  for (int64_t k = 0; k < call.k; k += f.block_k, block += kBytes) {
    for (int g = 0; g < f.block_k / f.group; ++g)
      for (int i = 0; i < kHeader; i += 32, scale += 16) _mm512_store_ps(scale, half16(block + i));
    if constexpr (K == PackedKind::kQ8_0) continue;
    constexpr int kHalf = f.block_k * kPanelRows / 2;
#pragma GCC unroll 16
    for (int i = 0; i < kHalf; i += 64) {
      const __m512i v = load(block + kHeader + i);
      _mm512_store_si512(q + i, nibbles<K>(v, false));
      _mm512_store_si512(q + kHalf + i, nibbles<K>(v, true));
    }
    q += 2 * kHalf;
  }
}

void expand(const ExpandCall& call) {
  const PackedKind kind = call.format->kind;
  if (kind == PackedKind::kF32 || kind == PackedKind::kBf16) return;  // in place
  if (call.compute == Compute::kNative) {
    switch (kind) {
      case PackedKind::kInt8:
        return;
      case PackedKind::kQ8_0:
        return expand_as<PackedKind::kQ8_0>(call);
      case PackedKind::kQ4_0:
        return expand_as<PackedKind::kQ4_0>(call);
      case PackedKind::kQ4_1:
        return expand_as<PackedKind::kQ4_1>(call);
      case PackedKind::kInt4:
        return expand_as<PackedKind::kInt4>(call);
      case PackedKind::kIq4Nl:
        return expand_as<PackedKind::kIq4Nl>(call);
      default:
        break;
    }
  }
  kMatmulAvx2.expand(call);
}

// Formats of equal arithmetic share their code.
Tile integer_tile(PackedKind kind, int tokens) {
  constexpr UpTo14 kUpTo;
  switch (kind) {
    case PackedKind::kInt8:
      return sums_tile<kDotBytes, 16>(tokens, kUpTo);
    case PackedKind::kQ8_0:
      return group_tile<kDotBytes, PackedKind::kQ8_0>(tokens, kUpTo);
    case PackedKind::kInt4:
    case PackedKind::kQ4_0:
    case PackedKind::kIq4Nl:
      return group_tile<kDotBytes, PackedKind::kQ4_0>(tokens, kUpTo);
    case PackedKind::kQ4_1:
    case PackedKind::kQ4K:
      return group_tile<kDotBytes, PackedKind::kQ4_1>(tokens, kUpTo);
    case PackedKind::kQ5_0:
      return group_tile<kDotBytes, PackedKind::kQ5_0>(tokens, kUpTo);
    case PackedKind::kQ5_1:
    case PackedKind::kQ5K:
      return group_tile<kDotBytes, PackedKind::kQ5_1>(tokens, kUpTo);
    case PackedKind::kQ2K:
      return group_tile<kDotBytes, PackedKind::kQ2K>(tokens, kUpTo);
    case PackedKind::kQ3K:
      return group_tile<kDotBytes, PackedKind::kQ3K>(tokens, kUpTo);
    case PackedKind::kQ6K:
      return group_tile<kDotBytes, PackedKind::kQ6K>(tokens, kUpTo);
    default:
      return nullptr;
  }
}

void tile(const TileCall& call) {
  const PackedFormat& f = *call.format;
  if (floats(f, call.compute)) return tile_floats_avx512(call);
  const Tile run = integer_tile(f.kind, call.act.tokens);
  if (f.group == 0)
    return tile_rows(call, stream_of(call, call.q, 32 * kPanelRows, call.k / 32), run);
  const bool bytes = f.kind == PackedKind::kQ8_0;
  const uint8_t* q = bytes ? call.q + header_bytes(f.kind) : call.q;
  const int64_t group_bytes = bytes ? packed_block_bytes(f) : f.group * kPanelRows;
  run(call, stream_of(call, q, group_bytes, call.k / f.group));
}

}  // namespace

const MatmulKernels kMatmulAvx512Vnni = {.plan = plan,
                                         .quantise = quantise,
                                         .direct = direct,
                                         .expand = expand,
                                         .tile = tile,
                                         .finish = finish_avx512};

}  // namespace ingot::cpu
