// Tile loaders: packed blocks to slices that the tiles multiply. A vector is 8 rows x 4 k.
#include "cpu/simd/matmul_avx2.h"

namespace ingot::cpu {

namespace {

// Takes 8 rows x 4 k of unsigned quants (rows 8 g.., k 4 step.. of the block) to the slice.
template <Form F, PackedKind K>
struct Emit {
  uint8_t* q;          // the block's place in the slice
  const float* scale;  // the block's expanded scales, or the row scales

  void operator()(int step, int g, __m256i v) const {
    if constexpr (F == Form::kBytes) {
      store256(q + step * 128 + g * 32, v);
    } else if constexpr (F == Form::kPairs) {
      store256(q + step * 256 + g * 32, _mm256_and_si256(v, _mm256_set1_epi16(255)));
      store256(q + step * 256 + 128 + g * 32, _mm256_srli_epi16(v, 8));
    } else {
      constexpr PackedFormat f = format_of(K);
      const float* s = scale + g * 8;
      if constexpr (f.group != 0) s += scale_floats(f, f.group) * (step * 4 / f.group);
      const __m256 d = _mm256_loadu_ps(s);
      float* out = reinterpret_cast<float*>(q) + step * 128 + g * 8;
      for (int b = 0; b < 4; ++b, v = _mm256_srli_epi32(v, 8)) {
        const __m256i i = _mm256_sub_epi32(_mm256_and_si256(v, _mm256_set1_epi32(255)),
                                           _mm256_set1_epi32(f.zero_point));
        __m256 y = _mm256_mul_ps(d, _mm256_cvtepi32_ps(i));
        if constexpr (f.has_min) y = _mm256_add_ps(y, _mm256_loadu_ps(s + kPanelRows));
        _mm256_storeu_ps(out + b * kPanelRows, y);
      }
    }
  }
};

inline __m256i low_bits(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi32(v, shift), _mm256_set1_epi8(static_cast<char>(mask)));
}

// Bit `s` of every byte as `value`.
inline __m256i bit_as(__m256i v, int s, int value) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(1 << s));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, mask), mask),
                          _mm256_set1_epi8(static_cast<char>(value)));
}

// Bits 4 step .. 4 step + 3 of each lane, as 16 in the lane's bytes (fifth bits of q5_0 and q5_1).
inline __m256i fifth_bits(__m256i lanes, int step) {
  const int byte = step / 2;
  const __m256i spread = _mm256_shuffle_epi8(
      lanes, _mm256_add_epi8(_mm256_set1_epi8(static_cast<char>(byte)),
                             _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                              0x08080808, 0x04040404, 0)));
  const __m256i mask =
      _mm256_set1_epi32(step % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010u));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask),
                          _mm256_set1_epi8(16));
}

inline __m256i iq4_values(__m256i nibbles) {
  // The table of quant/iq4_nl.cpp, plus 128.
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15));
  return _mm256_shuffle_epi8(table, nibbles);
}

// Nibbles of `words` planes: low ones are k 0.., high ones follow behind all low ones.
template <typename E, typename Map>
inline void nibbles(const uint8_t* p, int words, int step, const E& emit, Map map) {
  for (int w = 0; w < words; ++w)
    for (int g = 0; g < 4; ++g) {
      const __m256i v = load256(p + w * 128 + g * 32);
      emit(step + w, g, map(low_bits(v, 0, 15), w, g));
      emit(step + words + w, g, map(low_bits(v, 4, 15), words + w, g));
    }
}

constexpr auto kAsIs = [](__m256i v, int, int) { return v; };

// 128 values of q2_k and q3_k: four bit pairs of 8 word planes.
template <typename E, typename Map>
inline void bit_pairs(const uint8_t* p, int step, const E& emit, Map map) {
  for (int w = 0; w < 8; ++w)
    for (int g = 0; g < 4; ++g) {
      const __m256i v = load256(p + w * 128 + g * 32);
      for (int s = 0; s < 4; ++s) emit(step + s * 8 + w, g, map(low_bits(v, 2 * s, 3), s, w, g));
    }
}

template <typename E>
inline void load_q6_half(const uint8_t* low, const uint8_t* high, int step, const E& emit) {
  for (int w = 0; w < 8; ++w)
    for (int g = 0; g < 4; ++g) {
      const __m256i a = load256(low + w * 128 + g * 32);
      const __m256i b = load256(low + (8 + w) * 128 + g * 32);
      const __m256i h = load256(high + w * 128 + g * 32);
      const auto top = [&](int shift) { return _mm256_slli_epi16(low_bits(h, shift, 3), 4); };
      emit(step + w, g, _mm256_or_si256(low_bits(a, 0, 15), top(0)));
      emit(step + 8 + w, g, _mm256_or_si256(low_bits(b, 0, 15), top(2)));
      emit(step + 16 + w, g, _mm256_or_si256(low_bits(a, 4, 15), top(4)));
      emit(step + 24 + w, g, _mm256_or_si256(low_bits(b, 4, 15), top(6)));
    }
}

// Word planes of one block, from the first one.
template <PackedKind K, typename E>
inline void load_quants(const uint8_t* p, const E& emit) {
  if constexpr (K == PackedKind::kInt8 || K == PackedKind::kQ8_0) {
    for (int w = 0; w < 8; ++w)
      for (int g = 0; g < 4; ++g) emit(w, g, load256(p + w * 128 + g * 32));
  } else if constexpr (K == PackedKind::kInt4) {
    nibbles(p, 8, 0, emit, kAsIs);
  } else if constexpr (K == PackedKind::kQ4_0 || K == PackedKind::kQ4_1) {
    nibbles(p, 4, 0, emit, kAsIs);
  } else if constexpr (K == PackedKind::kIq4Nl) {
    nibbles(p, 4, 0, emit, [](__m256i v, int, int) { return iq4_values(v); });
  } else if constexpr (K == PackedKind::kIq4Xs) {
    for (int c = 0; c < 8; ++c)
      nibbles(p + (1 + c * 4) * 128, 4, c * 8, emit,
              [](__m256i v, int, int) { return iq4_values(v); });
  } else if constexpr (K == PackedKind::kQ5_0 || K == PackedKind::kQ5_1) {
    nibbles(p + 128, 4, 0, emit, [p](__m256i v, int step, int g) {
      return _mm256_or_si256(v, fifth_bits(load256(p + g * 32), step));
    });
  } else if constexpr (K == PackedKind::kQ4K) {
    for (int c = 0; c < 4; ++c) nibbles(p + (3 + c * 8) * 128, 8, c * 16, emit, kAsIs);
  } else if constexpr (K == PackedKind::kQ5K) {
    for (int c = 0; c < 4; ++c)
      nibbles(p + (11 + c * 8) * 128, 8, c * 16, emit, [p, c](__m256i v, int step, int g) {
        const __m256i high = load256(p + (3 + step % 8) * 128 + g * 32);
        return _mm256_or_si256(v, bit_as(high, 2 * c + step / 8, 16));
      });
  } else if constexpr (K == PackedKind::kQ2K) {
    for (int h = 0; h < 2; ++h)
      bit_pairs(p + (4 + h * 8) * 128, h * 32, emit, [](__m256i v, int, int, int) { return v; });
  } else if constexpr (K == PackedKind::kQ3K) {
    for (int h = 0; h < 2; ++h)
      bit_pairs(p + (11 + h * 8) * 128, h * 32, emit, [p, h](__m256i v, int s, int w, int g) {
        return _mm256_or_si256(v, bit_as(load256(p + (3 + w) * 128 + g * 32), 4 * h + s, 4));
      });
  } else {
    static_assert(K == PackedKind::kQ6K);
    for (int h = 0; h < 2; ++h)
      load_q6_half(p + (4 + h * 16) * 128, p + (36 + h * 8) * 128, h * 32, emit);
  }
}

inline __m256 half8(const uint8_t* plane, int g) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(plane + g * 16)));
}

// Byte b of each lane, unsigned, as f32.
inline __m256 byte_ps(__m256i v, int b) {
  const __m256i shifted = _mm256_srli_epi32(v, 8 * b);
  return _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(255)));
}

inline __m256 negated(__m256 v) {
  return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

// q4_k and q5_k: 8 scales and minimums of 6 bits in three words.
inline void load_k_scales(const uint8_t* block, float* out) {
  const __m256i six = _mm256_set1_epi8(0x30);
  for (int g = 0; g < 4; ++g) {
    const __m256 d = half8(block, g);
    const __m256 dmin = half8(block + 64, g);
    const __m256i s = load256(block + 128 + g * 32);
    const __m256i m = load256(block + 256 + g * 32);
    const __m256i x = load256(block + 384 + g * 32);
    const __m256i scales[2] = {
        low_bits(s, 0, 63),
        _mm256_or_si256(low_bits(x, 0, 15), _mm256_and_si256(_mm256_srli_epi32(s, 2), six))};
    const __m256i mins[2] = {
        low_bits(m, 0, 63),
        _mm256_or_si256(low_bits(x, 4, 15), _mm256_and_si256(_mm256_srli_epi32(m, 2), six))};
    for (int j = 0; j < 8; ++j) {
      float* to = out + j * 64 + g * 8;
      _mm256_storeu_ps(to, _mm256_mul_ps(d, byte_ps(scales[j / 4], j % 4)));
      _mm256_storeu_ps(to + 32, negated(_mm256_mul_ps(dmin, byte_ps(mins[j / 4], j % 4))));
    }
  }
}

inline void load_q2_scales(const uint8_t* block, float* out) {
  for (int g = 0; g < 4; ++g) {
    const __m256 d = half8(block, g);
    const __m256 dmin = half8(block + 64, g);
    for (int j = 0; j < 16; ++j) {
      const __m256i v = load256(block + 128 + j / 4 * 128 + g * 32);
      float* to = out + j * 64 + g * 8;
      _mm256_storeu_ps(to, _mm256_mul_ps(d, byte_ps(low_bits(v, 0, 15), j % 4)));
      _mm256_storeu_ps(to + 32, negated(_mm256_mul_ps(dmin, byte_ps(low_bits(v, 4, 15), j % 4))));
    }
  }
}

inline void load_q3_scales(const uint8_t* block, float* out) {
  for (int g = 0; g < 4; ++g) {
    const __m256 d = half8(block, g);
    const __m256i high = load256(block + 64 + 256 + g * 32);
    for (int i = 0; i < 4; ++i) {
      const __m256i low = load256(block + 64 + i % 2 * 128 + g * 32);
      const __m256i six = _mm256_or_si256(low_bits(low, i / 2 * 4, 15),
                                          _mm256_slli_epi16(low_bits(high, 2 * i, 3), 4));
      for (int b = 0; b < 4; ++b) {
        const __m256 s = _mm256_sub_ps(byte_ps(six, b), _mm256_set1_ps(32));
        _mm256_storeu_ps(out + (i * 4 + b) * 32 + g * 8, _mm256_mul_ps(d, s));
      }
    }
  }
}

inline void load_q6_scales(const uint8_t* block, float* out) {
  for (int g = 0; g < 4; ++g) {
    const __m256 d = half8(block, g);
    for (int j = 0; j < 16; ++j) {
      const __m256i v = load256(block + 64 + j / 4 * 128 + g * 32);
      const __m256i top = _mm256_slli_epi32(v, 24 - j % 4 * 8);
      const __m256 s = _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
      _mm256_storeu_ps(out + j * 32 + g * 8, _mm256_mul_ps(d, s));
    }
  }
}

inline void load_iq4_xs_scales(const uint8_t* block, float* out) {
  for (int g = 0; g < 4; ++g) {
    const __m256 d = half8(block, g);
    const __m256i high = _mm256_cvtepu16_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 64 + g * 16)));
    const __m256i low = load256(block + 128 + g * 32);
    for (int j = 0; j < 8; ++j) {
      const __m256i l = _mm256_and_si256(_mm256_srli_epi32(low, 4 * j), _mm256_set1_epi32(15));
      const __m256i h = _mm256_and_si256(_mm256_srli_epi32(high, 2 * j), _mm256_set1_epi32(3));
      const __m256i six = _mm256_or_si256(l, _mm256_slli_epi32(h, 4));
      const __m256 s = _mm256_cvtepi32_ps(_mm256_sub_epi32(six, _mm256_set1_epi32(32)));
      _mm256_storeu_ps(out + j * 32 + g * 8, _mm256_mul_ps(d, s));
    }
  }
}

// f32 scales of one block, per group 32 of them and 32 minimums.
template <PackedKind K>
inline void load_scales(const uint8_t* block, float* out) {
  if constexpr (K == PackedKind::kQ4K || K == PackedKind::kQ5K) {
    load_k_scales(block, out);
  } else if constexpr (K == PackedKind::kQ2K) {
    load_q2_scales(block, out);
  } else if constexpr (K == PackedKind::kQ3K) {
    load_q3_scales(block, out);
  } else if constexpr (K == PackedKind::kQ6K) {
    load_q6_scales(block, out);
  } else if constexpr (K == PackedKind::kIq4Xs) {
    load_iq4_xs_scales(block, out);
  } else {
    constexpr PackedFormat f = format_of(K);
    for (int g = 0; g < 4; ++g) {
      for (int i = 0; i < f.block_k / f.group; ++i)
        _mm256_storeu_ps(out + scale_floats(f, f.group) * i + g * 8, half8(block, g));
      if constexpr (f.has_min) _mm256_storeu_ps(out + 32 + g * 8, half8(block + 64, g));
    }
  }
}

constexpr int half_plane_bytes(const PackedFormat& f) {
  int bytes = 0;
  for (int i = 0; i < f.segment_count; ++i) bytes += f.segments[i].bytes == 2 ? 64 : 0;
  return bytes;
}

template <PackedKind K, Form F>
[[gnu::noinline]] void expand_quants(const ExpandCall& call) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kBytes = packed_block_bytes(f);
  constexpr int kValueBytes = F == Form::kBytes ? 1 : F == Form::kPairs ? 2 : 4;
  const uint8_t* block = call.blocks;
  uint8_t* q = call.q;
  float* scale = call.scale;
  for (int64_t k = 0; k < call.k; k += f.block_k, block += kBytes) {
    if constexpr (f.group != 0) load_scales<K>(block, scale);
    const Emit<F, K> emit{q, f.group != 0 ? scale : call.row_scale};
    load_quants<K>(block + half_plane_bytes(f), emit);
    q += f.block_k * kPanelRows * kValueBytes;
    scale += scale_floats(f, f.block_k);
  }
}

// The slice's own form of an integer format, or f32.
template <PackedKind K>
void expand_integer(const ExpandCall& call) {
  if (call.compute == Compute::kF32) return expand_quants<K, Form::kFloats>(call);
  expand_quants<K, form_of(format_of(K), Compute::kNative)>(call);
}

// Two vectors of 8 halves, one in each half of the lanes of `low` and `high`, to f32.
inline void store_halves(__m256i low, __m256i high, float* first, float* second) {
  const __m256i packed =
      _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
  _mm256_storeu_ps(first, _mm256_cvtph_ps(_mm256_castsi256_si128(packed)));
  _mm256_storeu_ps(second, _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1)));
}

void expand_bf16(const ExpandCall& call) {
  auto* out = reinterpret_cast<float*>(call.q);
  const auto keep = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  for (int64_t k = 0; k < call.k; k += 2, out += 64)
    for (int g = 0; g < 4; ++g) {
      const __m256i v = load256(call.blocks + k * 64 + g * 32);
      _mm256_storeu_ps(out + g * 8, _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)));
      _mm256_storeu_ps(out + 32 + g * 8, _mm256_castsi256_ps(_mm256_and_si256(v, keep)));
    }
}

void expand_f16(const ExpandCall& call) {
  auto* out = reinterpret_cast<float*>(call.q);
  for (int64_t k = 0; k < call.k; k += 2, out += 64)
    for (int g = 0; g < 4; ++g) {
      const __m256i v = load256(call.blocks + k * 64 + g * 32);
      store_halves(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(v, 16),
                   out + g * 8, out + 32 + g * 8);
    }
}

// e4m3 as f16 bits of 1/256 of its value: exact, subnormals included. NaN apart.
inline __m256 fp8_byte(__m256i v, int b) {
  const __m256i i = _mm256_and_si256(_mm256_srli_epi32(v, 8 * b), _mm256_set1_epi32(255));
  const __m256i magnitude = _mm256_and_si256(i, _mm256_set1_epi32(127));
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(i, _mm256_set1_epi32(128)), 8);
  const __m256i half = _mm256_or_si256(sign, _mm256_slli_epi32(magnitude, 7));
  const __m256i packed =
      _mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), _MM_SHUFFLE(3, 1, 2, 0));
  const __m256 value =
      _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(packed)), _mm256_set1_ps(256.0f));
  const __m256i nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(127));
  return _mm256_or_ps(value, _mm256_castsi256_ps(nan));
}

void expand_fp8(const ExpandCall& call) {
  auto* out = reinterpret_cast<float*>(call.q);
  for (int64_t k = 0; k < call.k; k += 4, out += 128)
    for (int g = 0; g < 4; ++g) {
      const __m256i v = load256(call.blocks + k * 32 + g * 32);
      const __m256 scale = _mm256_loadu_ps(call.row_scale + g * 8);
      for (int b = 0; b < 4; ++b)
        _mm256_storeu_ps(out + b * 32 + g * 8, _mm256_mul_ps(scale, fp8_byte(v, b)));
    }
}

template <PackedKind K>
void expand_scales(const ExpandCall& call) {
  constexpr PackedFormat f = format_of(K);
  const uint8_t* block = call.blocks;
  float* scale = call.scale;
  for (int64_t k = 0; k < call.k; k += f.block_k) {
    load_scales<K>(block, scale);
    block += packed_block_bytes(f);
    scale += scale_floats(f, f.block_k);
  }
}

}  // namespace

void expand_super_scales_avx2(const ExpandCall& call) {
  const PackedKind kind = call.format->kind;
  if (kind == PackedKind::kQ4K) return expand_scales<PackedKind::kQ4K>(call);
  if (kind == PackedKind::kQ5K) return expand_scales<PackedKind::kQ5K>(call);
  expand_scales<PackedKind::kQ6K>(call);
}

void expand_iq4_xs_bytes_avx2(const ExpandCall& call) {
  expand_quants<PackedKind::kIq4Xs, Form::kBytes>(call);
}

void expand_avx2(const ExpandCall& call) {
  switch (call.format->kind) {
    case PackedKind::kF32:
      for (int64_t i = 0; i < call.k * 128; i += 32) store256(call.q + i, load256(call.blocks + i));
      return;
    case PackedKind::kF16:
      return expand_f16(call);
    case PackedKind::kBf16:
      return expand_bf16(call);
    case PackedKind::kFp8:
      return expand_fp8(call);
    case PackedKind::kInt8:
      return expand_integer<PackedKind::kInt8>(call);
    case PackedKind::kInt4:
      return expand_integer<PackedKind::kInt4>(call);
    case PackedKind::kQ8_0:
      return expand_integer<PackedKind::kQ8_0>(call);
    case PackedKind::kQ4_0:
      return expand_integer<PackedKind::kQ4_0>(call);
    case PackedKind::kQ4_1:
      return expand_integer<PackedKind::kQ4_1>(call);
    case PackedKind::kQ5_0:
      return expand_integer<PackedKind::kQ5_0>(call);
    case PackedKind::kQ5_1:
      return expand_integer<PackedKind::kQ5_1>(call);
    case PackedKind::kIq4Nl:
      return expand_integer<PackedKind::kIq4Nl>(call);
    case PackedKind::kQ2K:
      return expand_integer<PackedKind::kQ2K>(call);
    case PackedKind::kQ3K:
      return expand_integer<PackedKind::kQ3K>(call);
    case PackedKind::kQ4K:
      return expand_integer<PackedKind::kQ4K>(call);
    case PackedKind::kQ5K:
      return expand_integer<PackedKind::kQ5K>(call);
    case PackedKind::kQ6K:
      return expand_integer<PackedKind::kQ6K>(call);
    case PackedKind::kIq4Xs:
      return expand_integer<PackedKind::kIq4Xs>(call);
    case PackedKind::kCount:
      return;
  }
}

}  // namespace ingot::cpu
