// Matrix kernels on the CPU: time, GB/s of packed weights and GOP/s for every format and number of
// tokens, beside what the processor can do at most. Weights are cold: calls rotate through more
// memory than the caches hold. A shared host only ever adds time, so kernels and limits are both
// taken at their best of many samples, the limits' between the kernels'.
// usage: cpu_linear_bench [threads [format,...|all [N K [tier]]]]
#include "base/threads.h"
#include "cpu/linear.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include "bench/cpu_limits.h"
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {
namespace {

using bench::now;
using namespace cpu;

constexpr std::size_t kColdBytes = std::size_t{384} << 20;  // server caches hold hundreds of MB
constexpr std::size_t kWindowBytes = std::size_t{24} << 20;
constexpr double kSecondsPerCase = 0.25;

// Huge pages where the system gives them, as the engine's weights have.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes + kHuge) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) std::abort();
    base_ = static_cast<std::byte*>(p);
    madvise(base_, bytes_, MADV_HUGEPAGE);
  }
  ~Pages() { munmap(base_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const {
    const auto at = reinterpret_cast<std::uintptr_t>(base_);
    return base_ + ((at + kHuge - 1) / kHuge * kHuge - at);
  }

 private:
  static constexpr std::size_t kHuge = std::size_t{2} << 20;
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

struct Shape {
  std::int64_t n;
  std::int64_t k;
};

struct Limits {
  double read = 0;
  double int8 = 0;
  double fma = 0;
  double bf16 = 0;
};

class Bench {
 public:
  Bench(ThreadPool& pool, Tier tier)
      : pool_(pool), tier_(tier), weights_(kColdBytes), memory_(kColdBytes / 8, 1) {
    // Bytes that are sane as f16, bf16 and f32 numbers, and as quants.
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < kColdBytes; ++i) {
      state = state * 1664525u + 1013904223u;
      weights_.data()[i] = static_cast<std::byte>(0x11 + (state >> 24) % 31);
    }
  }

  void format(const PackedFormat& f, const Shape& shape) {
    if (shape.k % f.block_k != 0 && !f.is_float && f.kind != PackedKind::kInt8) return;
    pack(f, shape);
    for (const std::int64_t m : {1, 2, 4, 8, 16, 64, 512}) measure(f, shape, m);
  }

 private:
  void sample_limits() {
    // A few milliseconds each: a longer one would rarely run undisturbed.
    window_ = (window_ + 1) % (kColdBytes / kWindowBytes);
    limits_.read = std::max(
        limits_.read,
        bench::read_peak(pool_, {memory_.data() + window_ * (kWindowBytes / 8), kWindowBytes / 8}));
    limits_.int8 = std::max(limits_.int8, bench::int8_peak(pool_, tier_));
    limits_.fma = std::max(limits_.fma, bench::fma_peak(pool_, tier_));
    limits_.bf16 = std::max(limits_.bf16, bench::bf16_peak(pool_, tier_));
  }

  void pack(const PackedFormat& f, const Shape& shape) {
    const std::size_t bytes = packed_bytes(f, shape.n, shape.k);
    const std::size_t row =
        static_cast<std::size_t>(f.row_header_bytes + shape.k / f.block_k * f.source_bytes);
    Pages packed(bytes);
    double best = 1e9;
    for (int i = 0; i < 6; ++i) {
      const double begin = now();
      pack_rows(pool_, f, shape.n, shape.k, weights_.data(), packed.data());
      if (i > 0) best = std::min(best, now() - begin);
    }
    fmt::print("{:8} [{}, {}] pack {:.2f} GB/s\n", f.name, shape.n, shape.k,
               static_cast<double>(row) * static_cast<double>(shape.n) / best * 1e-9);
  }

  void measure(const PackedFormat& f, const Shape& shape, std::int64_t m) {
    const std::size_t bytes = packed_bytes(f, shape.n, shape.k);
    const std::size_t copies = std::max<std::size_t>(1, kColdBytes / bytes);
    std::vector<float> x(static_cast<std::size_t>(m * shape.k));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) - 50.0f;
    std::vector<float> y(static_cast<std::size_t>(m * shape.n));
    const PackedFormat* formats[] = {&f};
    Pages workspace(
        linear_workspace_bytes(formats, Compute::kNative, m, shape.k, pool_.size(), tier_));
    const LinearWorkspace scratch{
        workspace.data(),
        linear_workspace_bytes(formats, Compute::kNative, m, shape.k, pool_.size(), tier_)};
    double best = 1e9;
    const double end = now() + kSecondsPerCase;
    for (std::size_t i = 0; i < 3 || now() < end; ++i) {
      const PackedWeight w{
          .format = &f, .n = shape.n, .k = shape.k, .data = weights_.data() + i % copies * bytes};
      const double begin = now();
      linear(pool_, scratch,
             {.weights = {&w, 1},
              .m = m,
              .x = x.data(),
              .x_stride = shape.k,
              .y = y.data(),
              .y_stride = shape.n},
             tier_);
      if (i > 0) best = std::min(best, now() - begin);
      if (i % 64 == 0) sample_limits();
    }
    const double gb = static_cast<double>(bytes) / best * 1e-9;
    const double gop = 2.0 * static_cast<double>(m * shape.n * shape.k) / best * 1e-9;
    const bool bf16 = f.kind == PackedKind::kBf16 && tier_ == Tier::kAvx512Bf16;
    const double peak = bf16 ? limits_.bf16 : f.is_float ? limits_.fma : limits_.int8;
    fmt::print(
        "  M {:3} {:10.1f} us {:6.1f} GB/s {:3.0f} % of read {:7.1f} GOP/s {:3.0f} % of {}\n", m,
        best * 1e6, gb, gb * 1e11 / limits_.read, gop, gop * 1e11 / peak,
        bf16         ? "bf16 peak"
        : f.is_float ? "FMA peak"
                     : "int8 peak");
  }

 public:
  void print_limits() const {
    fmt::print("limits: read {:.1f} GB/s, int8 {:.0f} GOP/s, FMA {:.0f}, bf16 {:.0f} GFLOP/s\n",
               limits_.read * 1e-9, limits_.int8 * 1e-9, limits_.fma * 1e-9, limits_.bf16 * 1e-9);
  }

 private:
  ThreadPool& pool_;
  Tier tier_;
  Pages weights_;
  std::vector<std::uint64_t> memory_;
  std::size_t window_ = 0;
  Limits limits_;
};

int run(int argc, char** argv) {
  const auto arg = [&](int i, const char* otherwise) { return argc > i ? argv[i] : otherwise; };
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : usable_cpus());
  const std::string wanted = arg(2, "all");
  const Shape shape{std::atoll(arg(3, "2048")), std::atoll(arg(4, "2048"))};
  Tier tier = best_tier();
  for (int t = 0; t <= static_cast<int>(detected_tier()); ++t)
    if (tier_name(static_cast<Tier>(t)) == arg(5, "")) tier = static_cast<Tier>(t);
  fmt::print("{} threads, tier {}\n", pool.size(), tier_name(tier));
  Bench bench(pool, tier);
  for (const PackedFormat& f : kPackedFormats)
    if (wanted == "all" ||
        (',' + wanted + ',').find(',' + std::string(f.name) + ',') != wanted.npos)
      bench.format(f, shape);
  bench.print_limits();
  return 0;
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  return ingot::run(argc, argv);
}
