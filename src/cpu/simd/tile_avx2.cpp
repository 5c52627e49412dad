// Register tiles: a few tokens times 16 rows of an expanded slice.
#include "cpu/simd/matmul_avx2.h"

namespace ingot::cpu {

namespace {

// Where a tile stands in its slice. Rows 16 half .. 16 half + 15 of the panel.
struct Cursor {
  const uint8_t* w;
  const uint8_t* x;
  const float* scale;
  const int32_t* init;
  const float* xs;
  const float* xm;
  float* c;
};

inline Cursor start(const TileCall& call, int half, int value_bytes) {
  const PackedFormat& f = *call.format;
  const int64_t tokens = call.act.tokens;
  const int64_t groups = f.group == 0 ? 0 : call.k_begin / f.group * tokens;
  return {.w = call.q + half * 64,
          .x = static_cast<const uint8_t*>(call.act.q) + call.k_begin * tokens * value_bytes,
          .scale = call.scale + half * 16,
          .init = call.act.init + groups,
          .xs = call.act.scale + (f.group == 0 ? 0 : call.k_begin / 32 * tokens),
          .xm = call.act.sum + groups,
          .c = call.c + half * 16};
}

// Lines of the next slice, a few beside each group: in a burst they would hold up the loads.
struct Prefetch {
  const uint8_t* p;
  int64_t lines;  // a group

  Prefetch(const TileCall& call, int64_t groups)
      : p(call.prefetch), lines((call.prefetch_bytes + groups * 64 - 1) / (groups * 64)) {}
  void step() {
    for (int64_t i = 0; i < lines; ++i, p += 64)
      _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  }
};

// Sums by assembler: g++ 12 would reorder integer additions into trees and spill the accumulators.
inline void first_bytes(__m256i& sum, __m256i w, __m256i x) {
  asm volatile("vpmaddubsw %2, %1, %0" : "=x"(sum) : "x"(w), "x"(x));
}
inline void add_bytes(__m256i& sum, __m256i w, __m256i x) {
  __m256i product;
  asm volatile(
      "vpmaddubsw %3, %2, %1\n\t"
      "vpaddw %1, %0, %0"
      : "+x"(sum), "=&x"(product)
      : "x"(w), "x"(x));
}
inline void add_pairs(__m256i& sum, __m256i w, __m256i x) {
  __m256i product;
  asm volatile(
      "vpmaddwd %3, %2, %1\n\t"
      "vpaddd %1, %0, %0"
      : "+x"(sum), "=&x"(product)
      : "x"(w), "x"(x));
}

// kSteps steps of 4 k in 16-bit sums, which hold them exactly.
template <int MR, int kSteps>
[[gnu::always_inline]] inline void dot_bytes(const uint8_t* w, const uint8_t* x,
                                             __m256i (&sum)[MR][2]) {
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s) {
    const __m256i w0 = load256(w + s * 128);
    const __m256i w1 = load256(w + s * 128 + 32);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256i v = splat32(x + (s * MR + i) * 4);
      if (s == 0) {
        first_bytes(sum[i][0], w0, v);
        first_bytes(sum[i][1], w1, v);
      } else {
        add_bytes(sum[i][0], w0, v);
        add_bytes(sum[i][1], w1, v);
      }
    }
  }
}

// 16-bit operands: two steps (even k, odd k) for each 4 k; adds to d.
template <int MR, int kSteps>
[[gnu::always_inline]] inline void dot_pairs(const uint8_t* w, const uint8_t* x,
                                             __m256i (&d)[MR][2]) {
  int steps = kSteps;
  asm("" : "+r"(steps));  // a count that g++ does not know: unrolled, it spills the sums
#pragma GCC unroll 1
  for (; steps > 0; --steps, w += 128, x += MR * 4) {
    const __m256i w0 = load256(w);
    const __m256i w1 = load256(w + 32);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256i v = splat32(x + i * 4);
      add_pairs(d[i][0], w0, v);
      add_pairs(d[i][1], w1, v);
    }
  }
}

// The one place where a group's dot product meets its scales, in this order.
template <bool kMin>
inline void add_group(float* c, __m256i d, const float* scale, __m256 xs, __m256 xm) {
  const __m256 f = _mm256_mul_ps(_mm256_cvtepi32_ps(d), _mm256_loadu_ps(scale));
  __m256 sum = _mm256_fmadd_ps(f, xs, _mm256_loadu_ps(c));
  if constexpr (kMin) sum = _mm256_fmadd_ps(_mm256_loadu_ps(scale + kPanelRows), xm, sum);
  _mm256_storeu_ps(c, sum);
}

// One token's int32 dot products of a group with 16 rows, to c.
template <PackedKind K>
inline void add_token(const Cursor& at, int i, __m256i d0, __m256i d1) {
  constexpr PackedFormat f = format_of(K);
  const __m256 xs = _mm256_broadcast_ss(at.xs + i);
  const __m256 xm = f.has_min ? _mm256_broadcast_ss(at.xm + i) : xs;
  float* c = at.c + i * kPanelRows;
  add_group<f.has_min>(c, d0, at.scale, xs, xm);
  add_group<f.has_min>(c + 8, d1, at.scale + 8, xs, xm);
}

template <PackedKind K, int MR>
[[gnu::always_inline]] inline void group_of_pairs(const Cursor& at) {
  __m256i d[MR][2];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) d[i][h] = splat32(at.init + i);
  dot_pairs<MR, format_of(K).group / 2>(at.w, at.x, d);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) add_token<K>(at, i, d[i][0], d[i][1]);
}

// 16-bit sums while they cannot overflow, then 32.
template <PackedKind K, int MR>
[[gnu::always_inline]] inline void group_of_bytes(const Cursor& at) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kDepth = exact_steps(f);
  constexpr int kSteps = f.group / 4;
  const auto wide = [](__m256i sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); };
  __m256i d[MR][2];
  __m256i sum[MR][2];
  dot_bytes<MR, kDepth>(at.w, at.x, sum);
#pragma GCC unroll 4
  for (int s = kDepth; s < kSteps; s += kDepth) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        d[i][h] = s == kDepth ? wide(sum[i][h]) : _mm256_add_epi32(d[i][h], wide(sum[i][h]));
    dot_bytes<MR, kDepth>(at.w + s * 128, at.x + s * MR * 4, sum);
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    __m256i total[2] = {wide(sum[i][0]), wide(sum[i][1])};
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      if constexpr (kDepth < kSteps) total[h] = _mm256_add_epi32(total[h], d[i][h]);
      if constexpr (f.zero_point != 0) total[h] = _mm256_add_epi32(total[h], splat32(at.init + i));
    }
    add_token<K>(at, i, total[0], total[1]);
  }
}

template <PackedKind K, int MR>
[[gnu::noinline]] void tile_group(const TileCall& call) {
  constexpr PackedFormat f = format_of(K);
  constexpr bool kPairs = form_of(f, Compute::kNative) == Form::kPairs;
  constexpr int kBytes = kPairs ? 2 : 1;
  const int64_t groups = call.k / f.group;
  Prefetch prefetch(call, groups);
  for (int half = 0; half < 2; ++half) {
    Cursor at = start(call, half, kBytes);
    for (int64_t g = 0; g < groups; ++g) {
      if (half == 0) prefetch.step();
      if constexpr (kPairs)
        group_of_pairs<K, MR>(at);
      else
        group_of_bytes<K, MR>(at);
      at.w += f.group * kPanelRows * kBytes;
      at.x += f.group * MR * kBytes;
      at.scale += scale_floats(f, f.group);
      at.init += MR;
      at.xm += MR;
      if ((g + 1) * f.group % 32 == 0) at.xs += MR;
      asm volatile("" ::: "memory");  // c stays in memory: registers are for the integer sums
    }
  }
}

// int8: exact int32 sums over all of k, kept in c between slices.
template <int MR>
[[gnu::noinline]] void tile_row_scale(const TileCall& call) {
  const int64_t groups = call.k / 32;
  Prefetch prefetch(call, groups);
  for (int half = 0; half < 2; ++half) {
    Cursor at = start(call, half, 2);
    __m256i d[MR][2];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        d[i][h] = call.first ? splat32(at.init + i) : load256(at.c + i * kPanelRows + h * 8);
    for (int64_t g = 0; g < groups; ++g, at.w += 64 * kPanelRows, at.x += 64 * MR) {
      if (half == 0) prefetch.step();
      dot_pairs<MR, 16>(at.w, at.x, d);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        float* c = at.c + i * kPanelRows + h * 8;
        if (!call.last) {
          store256(c, d[i][h]);
          continue;
        }
        const __m256 ws = _mm256_loadu_ps(call.row_scale + half * 16 + h * 8);
        const __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(d[i][h]), ws);
        _mm256_storeu_ps(c, _mm256_mul_ps(y, _mm256_broadcast_ss(at.xs + i)));
      }
  }
}

template <int MR>
[[gnu::noinline]] void tile_floats(const TileCall& call) {
  Prefetch prefetch(call, call.k / 32);
  for (int half = 0; half < 2; ++half) {
    const float* w = reinterpret_cast<const float*>(call.q) + half * 16;
    const float* x = static_cast<const float*>(call.act.q) + call.k_begin * MR;
    float* c = call.c + half * 16;
    __m256 a[MR][2];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) a[i][h] = _mm256_loadu_ps(c + i * kPanelRows + h * 8);
    for (int64_t k = 0; k < call.k; ++k, w += kPanelRows, x += MR) {
      if (half == 0 && k % 32 == 0) prefetch.step();
      const __m256 w0 = _mm256_loadu_ps(w);
      const __m256 w1 = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m256 v = _mm256_broadcast_ss(x + i);
        a[i][0] = _mm256_fmadd_ps(v, w0, a[i][0]);
        a[i][1] = _mm256_fmadd_ps(v, w1, a[i][1]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) _mm256_storeu_ps(c + i * kPanelRows + h * 8, a[i][h]);
  }
}

using Tile = void (*)(const TileCall&);

template <PackedKind K>
inline Tile integer_tile(int tokens) {
  if constexpr (format_of(K).group == 0) {
    static constexpr Tile tiles[] = {tile_row_scale<1>, tile_row_scale<2>, tile_row_scale<3>,
                                     tile_row_scale<4>, tile_row_scale<5>, tile_row_scale<6>};
    return tiles[tokens - 1];
  } else {
    static constexpr Tile tiles[] = {tile_group<K, 1>, tile_group<K, 2>, tile_group<K, 3>,
                                     tile_group<K, 4>, tile_group<K, 5>, tile_group<K, 6>};
    return tiles[tokens - 1];
  }
}

inline Tile tile_of(const PackedFormat& f, Compute compute, int tokens) {
  if (f.is_float || compute == Compute::kF32) {
    static constexpr Tile tiles[] = {tile_floats<1>, tile_floats<2>, tile_floats<3>,
                                     tile_floats<4>, tile_floats<5>, tile_floats<6>};
    return tiles[tokens - 1];
  }
  // Formats of equal arithmetic share their code.
  switch (f.kind) {
    case PackedKind::kInt8:
      return integer_tile<PackedKind::kInt8>(tokens);
    case PackedKind::kQ8_0:
    case PackedKind::kIq4Nl:
    case PackedKind::kIq4Xs:
      return integer_tile<PackedKind::kQ8_0>(tokens);
    case PackedKind::kInt4:
    case PackedKind::kQ4_0:
      return integer_tile<PackedKind::kQ4_0>(tokens);
    case PackedKind::kQ4_1:
    case PackedKind::kQ4K:
      return integer_tile<PackedKind::kQ4_1>(tokens);
    case PackedKind::kQ5_0:
      return integer_tile<PackedKind::kQ5_0>(tokens);
    case PackedKind::kQ5_1:
    case PackedKind::kQ5K:
      return integer_tile<PackedKind::kQ5_1>(tokens);
    case PackedKind::kQ2K:
      return integer_tile<PackedKind::kQ2K>(tokens);
    case PackedKind::kQ3K:
      return integer_tile<PackedKind::kQ3K>(tokens);
    case PackedKind::kQ6K:
      return integer_tile<PackedKind::kQ6K>(tokens);
    default:
      return nullptr;
  }
}

}  // namespace

void tile_avx2(const TileCall& call) {
  const bool sums_are_int32 =
      call.format->group == 0 && form_of(*call.format, call.compute) != Form::kFloats;
  if (call.first && !sums_are_int32)
    memset(call.c, 0, static_cast<size_t>(call.act.tokens) * kPanelRows * sizeof(float));
  tile_of(*call.format, call.compute, call.act.tokens)(call);
}

}  // namespace ingot::cpu
