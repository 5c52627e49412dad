#pragma once

#include "cpu/simd/matmul.h"

#include <string_view>

namespace ingot::cpu {

// Instruction sets Ingot has kernels for; each includes the ones before it.
enum class Tier { kGeneric, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16 };

std::string_view tier_name(Tier tier);  // "generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16"

// The highest tier of this processor and operating system, capped by the environment's
// INGOT_CPU=<tier name>. Throws Error{kUsage} when that names none. Read once.
Tier usable_tier();

// The fastest of those up to usable_tier(); that one itself where INGOT_CPU names it.
Tier best_tier();

// What the hardware offers, the environment left aside.
Tier detected_tier();

// The kernels of a tier. A tier without own matrix kernels has those of the tier below.
const MatmulKernels& matmul_kernels(Tier tier);

}  // namespace ingot::cpu
