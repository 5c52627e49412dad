#pragma once

// Register tiles of the AVX-512 tiers: up to 14 tokens times 32 rows, as assembler macros with
// fixed registers, because g++ 12 spills accumulators that come from intrinsics. Each tier's file
// includes this and instantiates what it needs; everything is local to it.
//
//   rsi weights  rdi activations  rbx prefetch
//   zmm0-1 weights of 32 rows, later their scales  zmm2-3 activations  zmm4-5 products
//   zmm6 16-bit ones
//   accumulators: two zmm a token from zmm(base) on; base 4, or 8 where zmm4-6 are needed
//   k1: odd 16-bit lanes
#include "cpu/simd/matmul.h"

#include <immintrin.h>
#include <string.h>

namespace ingot::cpu {

namespace {

// One step multiplies 32 rows' 32-bit lanes of weights with one lane of each token.
enum Step : int {
  kDotBytes = 0,   // vpdpbusd: 4 u8 times 4 s8, to int32
  kFloat = 1,      // f32
  kDotBf16 = 2,    // vdpbf16ps: 2 bf16 times 2 bf16, to f32
  kBytes16 = 3,    // vpmaddubsw, sums in 16 bits
  kBytes32 = 4,    // vpmaddubsw, each product widened to int32
  kPairs = 5,      // vpmaddwd: 2 i16 times 2 i16, to int32
  kWidenBf16 = 6,  // f32; even and odd k of bf16 pairs, widened in registers
  kWidenF16 = 7,   // the same of f16 pairs
};

constexpr int base_of(int step) {
  return step >= kBytes16 && step <= kPairs ? 8 : 4;
}

asm(R"(
.altmacro
.macro mm_mac step, a, b, t, o, k
  .if \step == 1 || \step == 6 || \step == 7
    vbroadcastss \o(%rdi), %zmm\t
    vfmadd231ps %zmm\t, %zmm0, %zmm\a
    vfmadd231ps %zmm\t, %zmm1, %zmm\b
  .else
    vpbroadcastd \o(%rdi), %zmm\t
  .endif
  .if \step == 0
    vpdpbusd %zmm\t, %zmm0, %zmm\a
    vpdpbusd %zmm\t, %zmm1, %zmm\b
  .endif
  .if \step == 2
    vdpbf16ps %zmm\t, %zmm0, %zmm\a
    vdpbf16ps %zmm\t, %zmm1, %zmm\b
  .endif
  .if \step == 3
    .if \k == 0
      vpmaddubsw %zmm\t, %zmm0, %zmm\a
      vpmaddubsw %zmm\t, %zmm1, %zmm\b
    .else
      vpmaddubsw %zmm\t, %zmm0, %zmm4
      vpmaddubsw %zmm\t, %zmm1, %zmm5
      vpaddw %zmm4, %zmm\a, %zmm\a
      vpaddw %zmm5, %zmm\b, %zmm\b
    .endif
  .endif
  .if \step == 4
    vpmaddubsw %zmm\t, %zmm0, %zmm4
    vpmaddubsw %zmm\t, %zmm1, %zmm5
    vpmaddwd %zmm6, %zmm4, %zmm4
    vpmaddwd %zmm6, %zmm5, %zmm5
    vpaddd %zmm4, %zmm\a, %zmm\a
    vpaddd %zmm5, %zmm\b, %zmm\b
  .endif
  .if \step == 5
    vpmaddwd %zmm\t, %zmm0, %zmm4
    vpmaddwd %zmm\t, %zmm1, %zmm5
    vpaddd %zmm4, %zmm\a, %zmm\a
    vpaddd %zmm5, %zmm\b, %zmm\b
  .endif
.endm
.macro mm_load v0, v1
  vmovdqa64 \v0(%rsi), %zmm0
  vmovdqa64 \v1(%rsi), %zmm1
.endm
.macro mm_widen odd, v0, v1
  .if \odd
    vmovdqu16 \v0(%rsi), %zmm0{%k1}{z}
    vmovdqu16 \v1(%rsi), %zmm1{%k1}{z}
  .else
    vpslld $16, \v0(%rsi), %zmm0
    vpslld $16, \v1(%rsi), %zmm1
  .endif
.endm
.macro mm_widen_f16 odd, v0, v1
  .if \odd
    vpsrld $16, \v0(%rsi), %zmm0
    vpsrld $16, \v1(%rsi), %zmm1
  .else
    vmovdqa64 \v0(%rsi), %zmm0
    vmovdqa64 \v1(%rsi), %zmm1
  .endif
  vpmovdw %zmm0, %ymm0
  vpmovdw %zmm1, %ymm1
  vcvtph2ps %ymm0, %zmm0
  vcvtph2ps %ymm1, %zmm1
.endm
.macro mm_prefetch o
  prefetcht1 \o(%rbx)
.endm
.macro mm_steps step, base, tokens, steps, lines
  mm_k = 0
  mm_l = 0
  .rept \steps
    .if \step == 6
      mm_widen %(mm_k-mm_k/2*2), %(128*(mm_k/2)), %(128*(mm_k/2)+64)
    .elseif \step == 7
      mm_widen_f16 %(mm_k-mm_k/2*2), %(128*(mm_k/2)), %(128*(mm_k/2)+64)
    .else
      mm_load %(128*mm_k), %(128*mm_k+64)
    .endif
    .rept (mm_k+1)*\lines/\steps - mm_k*\lines/\steps
      mm_prefetch %(64*mm_l)
      mm_l = mm_l + 1
    .endr
    mm_i = 0
    .rept \tokens
      mm_mac \step, %(\base+2*mm_i), %(\base+1+2*mm_i), %(2+mm_i-mm_i/2*2), %(4*(mm_k*\tokens+mm_i)), %(mm_k)
      mm_i = mm_i + 1
    .endr
    mm_k = mm_k + 1
  .endr
.endm
.macro mm_init1 a, b, o
  vpbroadcastd \o(%rdx), %zmm\a
  vpbroadcastd \o(%rdx), %zmm\b
.endm
.macro mm_init step, base, tokens
  .if \step != 3
    mm_i = 0
    .rept \tokens
      mm_init1 %(\base+2*mm_i), %(\base+1+2*mm_i), %(4*mm_i)
      mm_i = mm_i + 1
    .endr
  .endif
.endm
.macro mm_half step, a, s, i, c, m, min
  .if \step == 3
    vpmaddwd %zmm6, %zmm\a, %zmm\a
    vpaddd \i(%rdx){1to16}, %zmm\a, %zmm\a
  .endif
  vcvtdq2ps %zmm\a, %zmm\a
  vmulps %zmm\s, %zmm\a, %zmm\a
  vfmadd213ps \c(%r10), %zmm2, %zmm\a
  .if \min
    vfmadd231ps \m(%rax), %zmm3, %zmm\a
  .endif
  vmovaps %zmm\a, \c(%rcx)
.endm
.macro mm_end1 step, a, b, o, c0, c1, min
  vbroadcastss \o(%r8), %zmm2
  .if \min
    vbroadcastss \o(%r9), %zmm3
  .endif
  mm_half \step, \a, 0, \o, \c0, 128, \min
  mm_half \step, \b, 1, \o, \c1, 192, \min
.endm
.macro mm_end step, base, tokens, min
  vmovaps (%rax), %zmm0
  vmovaps 64(%rax), %zmm1
  mm_i = 0
  .rept \tokens
    mm_end1 \step, %(\base+2*mm_i), %(\base+1+2*mm_i), %(4*mm_i), %(128*mm_i), %(128*mm_i+64), \min
    mm_i = mm_i + 1
  .endr
.endm
.macro mm_rows1 a, b, o, c0, c1
  vbroadcastss \o(%r8), %zmm2
  vcvtdq2ps %zmm\a, %zmm\a
  vcvtdq2ps %zmm\b, %zmm\b
  vmulps %zmm0, %zmm\a, %zmm\a
  vmulps %zmm1, %zmm\b, %zmm\b
  vmulps %zmm2, %zmm\a, %zmm\a
  vmulps %zmm2, %zmm\b, %zmm\b
  vmovaps %zmm\a, \c0(%rcx)
  vmovaps %zmm\b, \c1(%rcx)
.endm
.macro mm_rows base, tokens
  vmovups (%rax), %zmm0
  vmovups 64(%rax), %zmm1
  mm_i = 0
  .rept \tokens
    mm_rows1 %(\base+2*mm_i), %(\base+1+2*mm_i), %(4*mm_i), %(128*mm_i), %(128*mm_i+64)
    mm_i = mm_i + 1
  .endr
.endm
.macro mm_zero1 a, b
  vpxord %zmm\a, %zmm\a, %zmm\a
  vpxord %zmm\b, %zmm\b, %zmm\b
.endm
.macro mm_start step, base, tokens
  .if \step == 0 || \step == 5
    mm_init \step, \base, \tokens
  .else
    mm_i = 0
    .rept \tokens
      mm_zero1 %(\base+2*mm_i), %(\base+1+2*mm_i)
      mm_i = mm_i + 1
    .endr
  .endif
.endm
.macro mm_take1 a, b, c0, c1
  vmovaps \c0(%rcx), %zmm\a
  vmovaps \c1(%rcx), %zmm\b
.endm
.macro mm_put1 a, b, c0, c1
  vmovaps %zmm\a, \c0(%rcx)
  vmovaps %zmm\b, \c1(%rcx)
.endm
.macro mm_sums what, base, tokens
  mm_i = 0
  .rept \tokens
    mm_\what\()1 %(\base+2*mm_i), %(\base+1+2*mm_i), %(128*mm_i), %(128*mm_i+64)
    mm_i = mm_i + 1
  .endr
.endm
// Eight steps of nibbles: the low ones of `words` words, then their high ones; where `half` is 1,
// high ones alone. zmm6 low nibbles  zmm7 their values, where they are looked up
.macro mm_nibbles high, table, v0, v1
  .if \high
    vpsrld $4, \v0(%rsi), %zmm0
    vpsrld $4, \v1(%rsi), %zmm1
    vpandd %zmm6, %zmm0, %zmm0
    vpandd %zmm6, %zmm1, %zmm1
  .else
    vpandd \v0(%rsi), %zmm6, %zmm0
    vpandd \v1(%rsi), %zmm6, %zmm1
  .endif
  .if \table
    vpshufb %zmm0, %zmm7, %zmm0
    vpshufb %zmm1, %zmm7, %zmm1
  .endif
.endm
.macro mm_nibble_steps tokens, words, half, table, lines
  mm_k = 0
  mm_l = 0
  .rept 8
    mm_w = mm_k
    mm_h = \half
    .if mm_k >= \words
      mm_w = mm_k - \words
      mm_h = 1
    .endif
    mm_nibbles %(mm_h), \table, %(128*mm_w), %(128*mm_w+64)
    .rept (mm_k+1)*\lines/8 - mm_k*\lines/8
      mm_prefetch %(64*mm_l)
      mm_l = mm_l + 1
    .endr
    mm_i = 0
    .rept \tokens
      mm_mac 0, %(8+2*mm_i), %(9+2*mm_i), %(2+mm_i-mm_i/2*2), %(4*(mm_k*\tokens+mm_i)), %(mm_k)
      mm_i = mm_i + 1
    .endr
    mm_k = mm_k + 1
  .endr
.endm
.macro mm_nibble_half a, s, m, c, min
  vcvtdq2ps %zmm\a, %zmm\a
  vmulps %zmm\s, %zmm\a, %zmm\a
  vfmadd213ps \c(%r10), %zmm2, %zmm\a
  .if \min
    vfmadd231ps %zmm\m, %zmm3, %zmm\a
  .endif
  vmovaps %zmm\a, \c(%rcx)
.endm
.macro mm_nibble_end1 a, b, o, c0, c1, min
  vbroadcastss \o(%r8), %zmm2
  .if \min
    vbroadcastss \o(%r9), %zmm3
  .endif
  mm_nibble_half \a, 0, 4, \c0, \min
  mm_nibble_half \b, 1, 5, \c1, \min
.endm
.macro mm_nibble_end tokens, min
  .if \min
    vcvtph2ps -128(%rsi), %zmm0
    vcvtph2ps -96(%rsi), %zmm1
    vcvtph2ps -64(%rsi), %zmm4
    vcvtph2ps -32(%rsi), %zmm5
  .else
    vcvtph2ps -64(%rsi), %zmm0
    vcvtph2ps -32(%rsi), %zmm1
  .endif
  mm_i = 0
  .rept \tokens
    mm_nibble_end1 %(8+2*mm_i), %(9+2*mm_i), %(4*mm_i), %(128*mm_i), %(128*mm_i+64), \min
    mm_i = mm_i + 1
  .endr
.endm
.macro mm_ones step
  .if \step == 3 || \step == 4
    vpternlogd $255, %zmm6, %zmm6, %zmm6
    vpsrlw $15, %zmm6, %zmm6
  .endif
.endm
.noaltmacro
)");

#define INGOT_TILE_REGISTERS                                                                      \
  "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
      "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",   \
      "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29",   \
      "xmm30", "xmm31"

alignas(64) constexpr float kZeros[14 * kPanelRows] = {};

// Where a slice's values lie, and what to bring near meanwhile.
struct Stream {
  const uint8_t* q;
  int64_t group_bytes;  // between groups; tile_sums: of 32 k
  const uint8_t* prefetch;
  int64_t prefetch_step;  // bytes a group; tile_sums: a round of 8 steps
};

constexpr const PackedFormat& format_of(PackedKind kind) {
  return kPackedFormats[static_cast<int>(kind)];
}

constexpr int lines_of(const PackedFormat& f) {
  return (packed_block_bytes(f) * f.group / f.block_k + 63) / 64;
}

// Integer sums of a group meet their scales: cvt, mul, fma (and fma with the minimum), in the order
// of matmul.h. The f32 sums stay in L1, as memory operands: loads and stores use other ports.
template <int kStep, PackedKind K, int kTokens>
[[gnu::noinline]] void tile_group(const TileCall& call, const Stream& from) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kValueBytes = kStep == kPairs ? 2 : 1;
  const int64_t groups = call.k / f.group;
  const int64_t first = call.k_begin / f.group * kTokens;
  const int64_t group_bytes = from.group_bytes;
  const int64_t prefetch_step = from.prefetch_step;
  const uint8_t* w = from.q;
  const uint8_t* pf = from.prefetch;
  const float* ws = call.scale;
  const uint8_t* x = static_cast<const uint8_t*>(call.act.q) + call.k_begin * kTokens * kValueBytes;
  const int32_t* init = call.act.init + first;
  const float* scales = call.act.scale + call.k_begin / 32 * kTokens;
  const float* sums = call.act.sum + first;
  float* const c = call.c;
  const float* added = call.first ? kZeros : c;
  for (int64_t g = 1; g <= groups; ++g) {
    // Bound here, from locals alone: any call in between, such as ThreadSanitizer's before a load,
    // may change these registers.
    register const float* xs asm("r8") = scales;
    register const float* xm asm("r9") = sums;
    register const float* addend asm("r10") = added;
    asm volatile(
        ".altmacro\n mm_ones %c[step]\n mm_init %c[step], %c[base], %c[tokens]\n"
        "mm_steps %c[step], %c[base], %c[tokens], %c[steps], %c[lines]\n"
        "mm_end %c[step], %c[base], %c[tokens], %c[min]\n .noaltmacro"
        : "+S"(w), "+D"(x), "+d"(init), "+a"(ws), "+b"(pf)
        : "c"(c), "r"(xs), "r"(xm), "r"(addend), [step] "i"(kStep), [base] "i"(base_of(kStep)),
          [tokens] "i"(kTokens), [steps] "i"(f.group * kValueBytes / 4), [lines] "i"(lines_of(f)),
          [min] "i"(f.has_min ? 1 : 0)
        : INGOT_TILE_REGISTERS);
    w += group_bytes;
    ws += f.has_min ? 2 * kPanelRows : kPanelRows;
    x += f.group * kTokens * kValueBytes;
    init += kTokens;
    sums += kTokens;
    if (g * f.group % 32 == 0) scales += kTokens;
    pf += prefetch_step;
    added = c;
  }
}

constexpr uint32_t kLowNibbles = 0x0f0f0f0f;
// The table of quant/iq4_nl.cpp, plus 128.
alignas(16) constexpr uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};

// One group of tile_nibbles; its variables. The registers are bound from locals alone, as in
// tile_group.
#define INGOT_NIBBLE_GROUP(which)                                                                  \
  do {                                                                                             \
    register const float* xs asm("r8") = scales;                                                   \
    register const float* xm asm("r9") = sums;                                                     \
    register const float* addend asm("r10") = added;                                               \
    asm volatile(                                                                                  \
        ".altmacro\n vpbroadcastd %[low], %%zmm6\n vbroadcasti32x4 %[table], %%zmm7\n"             \
        "mm_init 0, 8, %c[tokens]\n"                                                               \
        "mm_nibble_steps %c[tokens], %c[words], %c[half], %c[looks_up], %c[lines]\n"               \
        "mm_nibble_end %c[tokens], %c[min]\n .noaltmacro"                                          \
        : "+S"(w), "+D"(x), "+d"(init), "+b"(pf)                                                   \
        : "c"(c), "r"(xs), "r"(xm),                                                                \
          "r"(addend), [low] "m"(kLowNibbles), [table] "m"(kIq4Values), [tokens] "i"(kTokens),     \
          [words] "i"(kWords), [half] "i"(which), [looks_up] "i"(K == PackedKind::kIq4Nl ? 1 : 0), \
          [lines] "i"(lines_of(f)), [min] "i"(f.has_min ? 1 : 0)                                   \
        : INGOT_TILE_REGISTERS);                                                                   \
    x += f.group * kTokens;                                                                        \
    init += kTokens;                                                                               \
    sums += kTokens;                                                                               \
    scales += kTokens;                                                                             \
    pf += prefetch_step;                                                                           \
    added = c;                                                                                     \
  } while (false)

// tile_group of 4-bit values as they are packed: nibbles become bytes, and halves floats, in
// registers, so nothing is stored in between.
template <PackedKind K, int kTokens>
[[gnu::noinline]] void tile_nibbles(const TileCall& call, const Stream& from) {
  constexpr PackedFormat f = format_of(K);
  constexpr int kHeader = f.has_min ? 128 : 64;
  constexpr int kWords = f.block_k / 8;
  constexpr int kHalves = f.block_k / f.group;  // groups of a block, which share its scale
  static_assert(f.group == 32 && (kHalves == 1 || kHalves == 2));
  const int64_t first = call.k_begin / f.group * kTokens;
  const int64_t blocks = call.k / f.block_k;
  const int64_t prefetch_step = from.prefetch_step;
  const uint8_t* w = from.q + kHeader;
  const uint8_t* pf = from.prefetch;
  const uint8_t* x = static_cast<const uint8_t*>(call.act.q) + call.k_begin * kTokens;
  const int32_t* init = call.act.init + first;
  const float* scales = call.act.scale + first;
  const float* sums = call.act.sum + first;
  float* const c = call.c;
  const float* added = call.first ? kZeros : c;
  for (int64_t b = 0; b < blocks; ++b) {
    INGOT_NIBBLE_GROUP(0);
    if constexpr (kHalves == 2) INGOT_NIBBLE_GROUP(1);
    w += packed_block_bytes(f);
  }
}

// Sums over all of k in registers, f32 or int32; c holds them between slices. Integers start from
// the tile's init and end as f32: (sum * row scale) * activation scale.
template <int kStep, int kLines, int kTokens>
[[gnu::noinline]] void tile_sums(const TileCall& call, const Stream& from) {
  constexpr int64_t kRoundBytes = kStep == kWidenBf16 || kStep == kWidenF16 ? 512 : 1024;
  constexpr bool kInteger = kStep == kDotBytes || kStep == kPairs;
  int64_t rounds = call.k / 32 * from.group_bytes / kRoundBytes;
  const uint8_t* w = from.q;
  const uint8_t* pf = from.prefetch;
  const uint8_t* x = static_cast<const uint8_t*>(call.act.q) +
                     call.k_begin / 32 * from.group_bytes / kRoundBytes * 32 * kTokens;
  const float* row_scale = call.row_scale;
  const float* scale = call.act.scale;
  const int32_t* init = call.act.init;
  float* const c = call.c;
  const int first = call.first;
  const int scaled = kInteger && call.last;
  const int64_t prefetch_step = from.prefetch_step;
  register const float* act_scale asm("r8") = scale;  // from a local alone, as in tile_group
  asm volatile(
      ".altmacro\n"
      "kmovd %[odd], %%k1\n"
      "test %[first], %[first]\n jz 1f\n"
      "mm_start %c[step], %c[base], %c[tokens]\n jmp 2f\n"
      "1: mm_sums take, %c[base], %c[tokens]\n"
      "2: mm_steps %c[step], %c[base], %c[tokens], 8, %c[lines]\n"
      "add %[wstep], %[w]\n add %[xstep], %[x]\n add %[pstep], %[pf]\n dec %[n]\n jnz 2b\n"
      "test %[scaled], %[scaled]\n jz 3f\n"
      "mm_rows %c[base], %c[tokens]\n jmp 4f\n"
      "3: mm_sums put, %c[base], %c[tokens]\n"
      "4:\n .noaltmacro"
      : [w] "+S"(w), [x] "+D"(x), [pf] "+b"(pf), [n] "+r"(rounds), "+a"(row_scale)
      : "c"(c), "d"(init),
        "r"(act_scale), [odd] "r"(0xaaaaaaaa), [first] "r"(first), [scaled] "r"(scaled),
        [step] "i"(kStep), [base] "i"(base_of(kStep)), [tokens] "i"(kTokens), [lines] "i"(kLines),
        [wstep] "i"(kRoundBytes), [xstep] "i"(32 * kTokens), [pstep] "r"(prefetch_step)
      : INGOT_TILE_REGISTERS, "k1");
}

using Tile = void (*)(const TileCall&, const Stream&);

template <int... I>
struct Counts {};
using UpTo8 = Counts<1, 2, 3, 4, 5, 6, 7, 8>;
using UpTo12 = Counts<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>;
using UpTo14 = Counts<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;

template <int kStep, PackedKind K, int... I>
inline Tile group_tile(int tokens, Counts<I...>) {
  static constexpr Tile tiles[] = {tile_group<kStep, K, I>...};
  return tiles[tokens - 1];
}
template <PackedKind K, int... I>
inline Tile nibble_tile(int tokens, Counts<I...>) {
  static constexpr Tile tiles[] = {tile_nibbles<K, I>...};
  return tiles[tokens - 1];
}
template <int kStep, int kLines, int... I>
inline Tile sums_tile(int tokens, Counts<I...>) {
  static constexpr Tile tiles[] = {tile_sums<kStep, kLines, I>...};
  return tiles[tokens - 1];
}

// `parts`: groups or rounds of the slice.
inline Stream stream_of(const TileCall& call, const uint8_t* q, int64_t group_bytes,
                        int64_t parts) {
  return {.q = q,
          .group_bytes = group_bytes,
          .prefetch = call.prefetch_bytes > 0 ? call.prefetch : call.q,
          .prefetch_step = call.prefetch_bytes / parts};
}

}  // namespace

}  // namespace ingot::cpu
