#pragma once

#include "base/threads.h"
#include "cpu/simd/tier.h"

#include <cstdint>
#include <span>

// What the processor can do at most, to measure beside the kernels: a noisy host slows both.
namespace ingot::cpu {

// Seconds for a measurement: of the calling thread on a processor when the pool has one thread
// (what other programs take away does not count then), otherwise of the clock.
double seconds_on(const ThreadPool& pool);

// 8-bit integer operations (a multiply and an add are two) a second of all threads together, by the
// best instruction of the tier; 0 for the generic tier. One sample, a few milliseconds.
double int8_peak(ThreadPool& pool, Tier tier);
// The same of f32 multiply-adds.
double fma_peak(ThreadPool& pool, Tier tier);
// The same of bf16 products; 0 below the BF16 tier.
double bf16_peak(ThreadPool& pool, Tier tier);
// Bytes a second read from memory that is too large for any cache. One sample.
double read_peak(ThreadPool& pool, std::span<const std::uint64_t> memory);

}  // namespace ingot::cpu
