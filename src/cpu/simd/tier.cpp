#include "cpu/simd/tier.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ingot::cpu {

namespace {

constexpr std::array<std::string_view, 5> kNames = {"generic", "avx2", "avx512", "avx512_vnni",
                                                    "avx512_bf16"};

#if defined(__x86_64__)
bool bit(unsigned word, int index) {
  return (word >> index & 1u) != 0;
}

// Register state the operating system saves (XCR0). As bytes: -mxsave would be a flag for one line.
unsigned saved_state() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Intel SDM vol. 2A, CPUID; vol. 1, 13.3 (XCR0: bits 1-2 for ymm, 5-7 for zmm and masks).
Tier detect() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return Tier::kGeneric;
  const bool fma = bit(c, 12);
  const bool f16c = bit(c, 29);
  if (!bit(c, 27)) return Tier::kGeneric;  // OSXSAVE
  const unsigned state = saved_state();
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return Tier::kGeneric;
  const unsigned leaves = a;
  if (!fma || !f16c || !bit(b, 5) || (state & 6u) != 6u) return Tier::kGeneric;
  const bool avx512 = bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);  // F, DQ, BW, VL
  if (!avx512 || (state & 0xe6u) != 0xe6u) return Tier::kAvx2;
  if (!bit(c, 11)) return Tier::kAvx512;
  if (leaves < 1 || __get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || !bit(a, 5))
    return Tier::kAvx512Vnni;
  return Tier::kAvx512Bf16;
}

// Xeons with BF16 run vdpbf16ps at a quarter of the rate of f32 fused multiply-adds: for twice the
// products, half the speed of widening. Other makers' run it at full rate.
bool prefers_widening() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_INTEL_ebx &&
         c == signature_INTEL_ecx && d == signature_INTEL_edx;
}
#else
bool prefers_widening() {
  return false;
}
Tier detect() {
  return Tier::kGeneric;
}
#endif

bool is_named() {
  const char* wanted = std::getenv("INGOT_CPU");
  return wanted != nullptr && *wanted != '\0';
}

Tier capped(Tier detected) {
  if (!is_named()) return detected;
  const char* wanted = std::getenv("INGOT_CPU");
  const auto it = std::find(kNames.begin(), kNames.end(), std::string_view(wanted));
  if (it == kNames.end())
    fail(ErrorCode::kUsage,
         "[cpu.tier] INGOT_CPU={}, wanted generic, avx2, avx512, avx512_vnni or avx512_bf16",
         wanted);
  return std::min(detected, static_cast<Tier>(it - kNames.begin()));
}

}  // namespace

std::string_view tier_name(Tier tier) {
  return kNames[static_cast<std::size_t>(tier)];
}

Tier detected_tier() {
  static const Tier tier = detect();
  return tier;
}

Tier usable_tier() {
  static const Tier tier = capped(detected_tier());
  return tier;
}

Tier best_tier() {
  if (is_named() || !prefers_widening()) return usable_tier();
  return std::min(usable_tier(), Tier::kAvx512Vnni);
}

const MatmulKernels& matmul_kernels([[maybe_unused]] Tier tier) {
#if defined(__x86_64__)
  if (tier == Tier::kAvx512Bf16) return kMatmulAvx512Bf16;
  if (tier == Tier::kAvx512Vnni) return kMatmulAvx512Vnni;
  if (tier == Tier::kAvx512) return kMatmulAvx512;
  if (tier == Tier::kAvx2) return kMatmulAvx2;
#endif
  return kMatmulGeneric;
}

}  // namespace ingot::cpu
