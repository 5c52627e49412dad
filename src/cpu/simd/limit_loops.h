#pragma once

#include <cstdint>

// Loops of independent chains that keep the multipliers of one thread busy.
namespace ingot::cpu {

inline constexpr int kLimitChains = 12;
// Operations of one step of each loop.
inline constexpr std::int64_t kFmaAvx2Ops = kLimitChains * 16;
inline constexpr std::int64_t kFmaAvx512Ops = kLimitChains * 32;
inline constexpr std::int64_t kInt8Avx2Ops = kLimitChains * 64;
inline constexpr std::int64_t kInt8Avx512Ops = kLimitChains * 128;
inline constexpr std::int64_t kBf16Ops = kLimitChains * 64;
inline constexpr std::int64_t kInt8VnniOps = kLimitChains * 128;

void fma_loop_avx2(std::int64_t steps);
void fma_loop_avx512(std::int64_t steps);
// Unsigned times signed bytes by vpmaddubsw, widened and added: three instructions.
void int8_loop_avx2(std::int64_t steps);
void int8_loop_avx512(std::int64_t steps);
// The same by vpdpbusd alone.
void int8_loop_avx512_vnni(std::int64_t steps);
// Pairs of bf16 products by vdpbf16ps.
void bf16_loop_avx512_bf16(std::int64_t steps);

}  // namespace ingot::cpu
