#include "cpu/limits.h"

#include "cpu/simd/limit_loops.h"

#include <chrono>
#include <ctime>
#include <vector>

namespace ingot::cpu {

namespace {

constexpr std::int64_t kFmaSteps = 1 << 19;
constexpr std::int64_t kInt8Steps = 1 << 16;
constexpr std::int64_t kPadding = 8;  // counters a cache line apart

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double operations_per_second(void (*loop)(std::int64_t), std::int64_t steps, std::int64_t ops) {
  const double begin = thread_seconds();
  loop(steps);
  return static_cast<double>(steps * ops) / (thread_seconds() - begin);
}

// Every thread at once, each by its own time on a processor; the sum.
template <typename Rate>
double sum_of_threads(ThreadPool& pool, const Rate& rate) {
  std::vector<double> rates(static_cast<std::size_t>(pool.size() * kPadding), 0.0);
  pool.run([&](int thread) { rates[static_cast<std::size_t>(thread * kPadding)] = rate(); });
  double sum = 0;
  for (const double r : rates) sum += r;
  return sum;
}

}  // namespace

double seconds_on(const ThreadPool& pool) {
  if (pool.size() == 1) return thread_seconds();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#if defined(__x86_64__)

double int8_peak(ThreadPool& pool, Tier tier) {
  return sum_of_threads(pool, [&] {
    if (tier >= Tier::kAvx512Vnni)
      return operations_per_second(int8_loop_avx512_vnni, kInt8Steps, kInt8VnniOps);
    if (tier >= Tier::kAvx512)
      return operations_per_second(int8_loop_avx512, kInt8Steps, kInt8Avx512Ops);
    if (tier >= Tier::kAvx2) return operations_per_second(int8_loop_avx2, kInt8Steps, kInt8Avx2Ops);
    return 0.0;
  });
}

double fma_peak(ThreadPool& pool, Tier tier) {
  return sum_of_threads(pool, [&] {
    if (tier >= Tier::kAvx512)
      return operations_per_second(fma_loop_avx512, kFmaSteps, kFmaAvx512Ops);
    if (tier >= Tier::kAvx2) return operations_per_second(fma_loop_avx2, kFmaSteps, kFmaAvx2Ops);
    return 0.0;
  });
}

double bf16_peak(ThreadPool& pool, Tier tier) {
  return sum_of_threads(pool, [&] {
    if (tier >= Tier::kAvx512Bf16)
      return operations_per_second(bf16_loop_avx512_bf16, kInt8Steps, kBf16Ops);
    return 0.0;
  });
}

#else

double bf16_peak(ThreadPool&, Tier) {
  return 0;
}
double int8_peak(ThreadPool&, Tier) {
  return 0;
}
double fma_peak(ThreadPool&, Tier) {
  return 0;
}

#endif

double read_peak(ThreadPool& pool, std::span<const std::uint64_t> memory) {
  constexpr std::int64_t kBlock = 64;  // words a turn
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.size() * kPadding));
  const double begin = seconds_on(pool);
  pool.run([&](int thread) {
    const auto blocks = static_cast<std::int64_t>(memory.size()) / kBlock;
    const auto [first, last] = static_split(blocks, pool.size(), thread);
    typedef std::uint64_t Vec __attribute__((vector_size(16)));
    Vec a = {}, b = {}, c = {}, d = {};
    for (std::int64_t i = first; i < last; ++i) {
      const Vec* at = reinterpret_cast<const Vec*>(memory.data() + i * kBlock);
      for (int j = 0; j < 32; j += 4) {
        a += at[j];
        b += at[j + 1];
        c += at[j + 2];
        d += at[j + 3];
        __builtin_prefetch(at + j + 256);  // every line, beside its loads
      }
    }
    a += b + c + d;
    sums[static_cast<std::size_t>(thread * kPadding)] = a[0] + a[1];
  });
  const double seconds = seconds_on(pool) - begin;
  [[maybe_unused]] volatile std::uint64_t sink = sums[0];
  return static_cast<double>(memory.size_bytes()) / seconds;
}

}  // namespace ingot::cpu
