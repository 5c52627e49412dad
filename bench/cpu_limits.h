#pragma once

#include "base/threads.h"
#include "cpu/simd/tier.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <span>
#include <vector>

// What the processor can do at most, measured beside the kernels so that a noisy host slows both.
namespace ingot::bench {

// Seconds of the calling thread on a processor: with one thread, what other programs take away does
// not count.
inline double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double seconds_on(const ThreadPool& pool) {
  return pool.size() == 1 ? thread_seconds() : now();
}

// Twelve independent chains of fused multiply-adds; returns flops per second of one thread.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"), noinline)) inline double fma_rate_avx2(std::int64_t steps) {
  typedef float Vec __attribute__((vector_size(32)));
  Vec acc[12] = {};
  Vec x = {1, 1, 1, 1, 1, 1, 1, 1};
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(acc[j]) : "x"(x));
  return static_cast<double>(steps) * 12 * 16 / (thread_seconds() - begin);
}

__attribute__((target("avx512f"), noinline)) inline double fma_rate_avx512(std::int64_t steps) {
  typedef float Vec __attribute__((vector_size(64)));
  Vec acc[12] = {};
  Vec x = {};
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(acc[j]) : "v"(x));
  return static_cast<double>(steps) * 12 * 32 / (thread_seconds() - begin);
}

// Unsigned times signed bytes by vpmaddubsw, widened and added: 64 operations a step of three
// instructions. Returns operations per second of one thread.
__attribute__((target("avx2"), noinline)) inline double int8_rate_avx2(std::int64_t steps) {
  typedef long long Vec __attribute__((vector_size(32)));
  Vec acc[12] = {};
  Vec w = {};
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) {
      Vec t;
      asm volatile("vpmaddubsw %2, %2, %1\n vpmaddwd %2, %1, %1\n vpaddd %1, %0, %0"
                   : "+x"(acc[j]), "=&x"(t)
                   : "x"(w));
    }
  return static_cast<double>(steps) * 12 * 64 / (thread_seconds() - begin);
}

// The same on 64 bytes, and by vpdpbusd: 128 operations an instruction.
__attribute__((target("avx512bw"), noinline)) inline double int8_rate_avx512(std::int64_t steps) {
  typedef long long Vec __attribute__((vector_size(64)));
  Vec acc[12] = {};
  Vec w = {};
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) {
      Vec t;
      asm volatile("vpmaddubsw %2, %2, %1\n vpmaddwd %2, %1, %1\n vpaddd %1, %0, %0"
                   : "+v"(acc[j]), "=&v"(t)
                   : "v"(w));
    }
  return static_cast<double>(steps) * 12 * 128 / (thread_seconds() - begin);
}

__attribute__((target("avx512vnni"), noinline)) inline double int8_rate_vnni(std::int64_t steps) {
  typedef long long Vec __attribute__((vector_size(64)));
  Vec acc[12] = {};
  Vec w = {};
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vpdpbusd %1, %1, %0" : "+v"(acc[j]) : "v"(w));
  return static_cast<double>(steps) * 12 * 128 / (thread_seconds() - begin);
}

// Pairs of bf16 products: 64 operations an instruction.
__attribute__((target("avx512bf16"), noinline)) inline double bf16_rate(std::int64_t steps) {
  typedef float Vec __attribute__((vector_size(64)));
  Vec acc[12] = {};
  Vec w = {};
  const double begin = thread_seconds();
  for (std::int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(acc[j]) : "v"(w));
  return static_cast<double>(steps) * 12 * 64 / (thread_seconds() - begin);
}
#endif

// 8-bit integer operations per second of all threads together; 0 for the generic tier.
inline double int8_peak(ThreadPool& pool, cpu::Tier tier) {
  std::vector<double> rate(static_cast<std::size_t>(pool.size()), 0.0);
  pool.run([&](int thread) {
#if defined(__x86_64__)
    double& r = rate[static_cast<std::size_t>(thread)];
    if (tier >= cpu::Tier::kAvx512Vnni)
      r = int8_rate_vnni(1 << 17);
    else if (tier >= cpu::Tier::kAvx512)
      r = int8_rate_avx512(1 << 16);
    else if (tier >= cpu::Tier::kAvx2)
      r = int8_rate_avx2(1 << 16);
#endif
  });
  double sum = 0;
  for (const double r : rate) sum += r;
  return sum;
}

// f32 flops per second of all threads together; 0 for the generic tier.
inline double fma_peak(ThreadPool& pool, cpu::Tier tier) {
  std::vector<double> rate(static_cast<std::size_t>(pool.size()), 0.0);
  pool.run([&](int thread) {
#if defined(__x86_64__)
    double& r = rate[static_cast<std::size_t>(thread)];
    if (tier >= cpu::Tier::kAvx512)
      r = fma_rate_avx512(1 << 19);
    else if (tier >= cpu::Tier::kAvx2)
      r = fma_rate_avx2(1 << 19);
#endif
  });
  double sum = 0;
  for (const double r : rate) sum += r;
  return sum;
}

// bf16 operations per second of all threads together; 0 below the BF16 tier.
inline double bf16_peak(ThreadPool& pool, cpu::Tier tier) {
  std::vector<double> rate(static_cast<std::size_t>(pool.size()), 0.0);
  pool.run([&](int thread) {
#if defined(__x86_64__)
    if (tier >= cpu::Tier::kAvx512Bf16) rate[static_cast<std::size_t>(thread)] = bf16_rate(1 << 17);
#endif
  });
  double sum = 0;
  for (const double r : rate) sum += r;
  return sum;
}

// Bytes per second read from memory too large for any cache.
inline double read_peak(ThreadPool& pool, std::span<const std::uint64_t> memory) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.size()) * 8);
  const double begin = seconds_on(pool);
  pool.run([&](int thread) {
    const auto [first, last] =
        static_split(static_cast<std::int64_t>(memory.size() / 64), pool.size(), thread);
    typedef std::uint64_t Vec __attribute__((vector_size(16)));
    Vec a = {}, b = {}, c = {}, d = {};
    for (std::int64_t i = first; i < last; ++i) {
      const Vec* at = reinterpret_cast<const Vec*>(memory.data() + i * 64);
      for (int j = 0; j < 32; j += 4) {
        a += at[j];
        b += at[j + 1];
        c += at[j + 2];
        d += at[j + 3];
      }
      __builtin_prefetch(at + 256);
    }
    a += b + c + d;
    sums[static_cast<std::size_t>(thread) * 8] = a[0] + a[1];
  });
  const double seconds = seconds_on(pool) - begin;
  volatile std::uint64_t sink = sums[0];
  (void)sink;
  return static_cast<double>(memory.size()) * 8 / seconds;
}

}  // namespace ingot::bench
