// Attention on the CPU over a KV cache in bf16, int8 and fp8: prefill as a share of the peak of
// multiply-adds (of BF16 instructions where the tier has them), decode as a share of the read
// bandwidth. Limits are measured between the repetitions; medians of both are compared.
//
//   cpu_attention_bench [threads [tier [prefill|decode]]]
#include "cpu/attention.h"
#include "cpu/description.h"
#include "cpu/kernel_maker.h"
#include "cpu/kv_writer.h"
#include "cpu/memory.h"

#include <fmt/core.h>

#include "bench/cpu_limits.h"
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>

namespace ingot {
namespace {

struct Shape {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t dim;
  cpu::KvStore store = cpu::KvStore::kBf16;
};

const char* name_of(cpu::KvStore store) {
  return store == cpu::KvStore::kBf16 ? "bf16" : store == cpu::KvStore::kInt8 ? "int8" : "fp8 ";
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// A layer's cache of one sequence with its pages in random order, and queries.
class Case {
 public:
  Case(const Shape& shape, std::int64_t context, std::int64_t queries, ThreadPool& pool,
       cpu::Tier tier)
      : layout_{shape.kv_heads, shape.dim, 64, shape.store},
        context_(static_cast<std::int32_t>(context)),
        start_{0, static_cast<std::int32_t>(queries)},
        table_(static_cast<std::size_t>((context + 63) / 64)),
        q_(static_cast<std::size_t>(queries * shape.heads * shape.dim)),
        out_(q_.size()),
        attention_({.kv = layout_,
                    .heads = shape.heads,
                    .scale = 1 / std::sqrt(static_cast<double>(shape.dim)),
                    .max_tokens = queries,
                    .max_sequences = 1,
                    .max_context = context},
                   pool, tier),
        workspace_(cpu::allocate_pages(attention_.workspace_bytes(), "workspace")),
        pages_(cpu::allocate_pages(table_.size() * static_cast<std::size_t>(layout_.page_bytes()),
                                   "pages")) {
    std::minstd_rand random(1);
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), random);
    const auto normal = [&] { return static_cast<float>(random() % 4001) * 1e-3f - 2.0f; };
    for (float& x : q_) x = normal();
    std::vector<float> row(static_cast<std::size_t>(shape.kv_heads * shape.dim + 256));
    for (float& x : row) x = normal();
    const cpu::KvWriter writer(layout_);
    const auto tokens = static_cast<std::int64_t>(table_.size()) * 64;
    for (std::int64_t t = 0; t < tokens; ++t)
      writer.append(cpu::row_kernels(tier), pages_->data(), t, row.data() + random() % 256,
                    row.data() + random() % 256);
  }

  double bytes() const { return static_cast<double>(pages_->bytes()); }
  void run() {
    attention_.run({.q = q_.data(),
                    .out = out_.data(),
                    .query_start = start_,
                    .context_len = &context_,
                    .block_table = table_.data(),
                    .table_width = static_cast<std::int64_t>(table_.size()),
                    .sequences = 1,
                    .pages = pages_->data(),
                    .workspace = workspace_->data()});
  }

 private:
  cpu::KvLayout layout_;
  std::int32_t context_;
  std::int32_t start_[2];
  std::vector<std::int32_t> table_;
  std::vector<float> q_;
  std::vector<float> out_;
  cpu::Attention attention_;
  std::unique_ptr<Buffer> workspace_;
  std::unique_ptr<Buffer> pages_;
};

// Median seconds of `work` and median of `limit`, taken in turn.
std::pair<double, double> measure(const ThreadPool& pool, const std::function<void()>& work,
                                  const std::function<double()>& limit) {
  std::vector<double> seconds;
  std::vector<double> limits;
  work();
  const double begin = bench::now();
  for (int i = 0; i < 31 && (i < 3 || bench::now() - begin < 1); ++i) {
    limits.push_back(limit());
    const double start = bench::seconds_on(pool);
    work();
    seconds.push_back(bench::seconds_on(pool) - start);
  }
  return {median(seconds), median(limits)};
}

void bench_prefill(const Shape& shape, std::int64_t tokens, ThreadPool& pool, cpu::Tier tier) {
  Case c(shape, tokens, tokens, pool, tier);
  const auto [seconds, peak] = measure(
      pool, [&] { c.run(); },
      [&] {
        return tier >= cpu::Tier::kAvx512Bf16 ? bench::bf16_peak(pool, tier)
                                              : bench::fma_peak(pool, tier);
      });
  const double n = static_cast<double>(tokens);
  const double flops = 4.0 * static_cast<double>(shape.heads * shape.dim) * n * (n + 1) / 2;
  fmt::print("prefill {} {:2}/{}x{:3} T={:5}: {:9.3f} ms {:7.1f} GFLOP/s  {:5.1f} % of {:.0f}\n",
             name_of(shape.store), shape.heads, shape.kv_heads, shape.dim, tokens, seconds * 1e3,
             flops / seconds * 1e-9, peak > 0 ? 100 * flops / seconds / peak : 0, peak * 1e-9);
}

// Enough layers to come from memory, as in a model.
void bench_decode(const Shape& shape, std::int64_t context, ThreadPool& pool, cpu::Tier tier) {
  std::vector<std::unique_ptr<Case>> layers;
  double bytes = 0;
  while (bytes < 400e6) {
    layers.push_back(std::make_unique<Case>(shape, context, 1, pool, tier));
    bytes += layers.back()->bytes();
  }
  static const std::vector<std::uint64_t> memory(std::size_t{32} << 20, 1);
  const auto [seconds, peak] = measure(
      pool,
      [&] {
        for (const auto& layer : layers) layer->run();
      },
      [&] { return bench::read_peak(pool, memory); });
  fmt::print("decode  {} {:2}/{}x{:3} at {:6}: {:9.2f} us {:7.2f} GB/s  {:5.1f} % of {:.1f}\n",
             name_of(shape.store), shape.heads, shape.kv_heads, shape.dim, context,
             seconds * 1e6 / static_cast<double>(layers.size()), bytes / seconds * 1e-9,
             100 * bytes / seconds / peak, peak * 1e-9);
}

void run(int threads, const std::string& tier_text, const std::string& only) {
  const cpu::Tier tier = cpu::tier_under(tier_text);
  ThreadPool pool(threads > 0 ? threads : usable_cpus());
  fmt::print("{} threads, {}\n", pool.size(), cpu::tier_name(tier));
  for (Shape shape : {Shape{9, 3, 64}, {32, 8, 64}, {16, 4, 128}})
    for (const bool prefill : {true, false})
      for (const std::int64_t tokens : {prefill ? 512 : 4096, prefill ? 2048 : 32768})
        for (const cpu::KvStore store :
             {cpu::KvStore::kBf16, cpu::KvStore::kInt8, cpu::KvStore::kE4m3}) {
          if (!only.empty() && prefill != (only == "prefill")) continue;
          shape.store = store;
          (prefill ? bench_prefill : bench_decode)(shape, tokens, pool, tier);
        }
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::run(argc > 1 ? std::stoi(argv[1]) : 0, argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
}
