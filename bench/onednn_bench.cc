// Own matrix products beside oneDNN's (Debian's libdnnl-dev): f32 activations of 512 tokens to f32
// results, the same threads, taking turns; best of many. Weights are packed beforehand on both
// sides. oneDNN's activations are quantised by its reorder with a scale known beforehand, own ones
// with a scale found for each token; "product" is oneDNN's time without that reorder.
// usage: onednn_bench [threads [tier]]
#include "base/threads.h"
#include "cpu/linear.h"

#include <fmt/core.h>

#include "bench/cpu_limits.h"
#include <algorithm>
#include <cstdlib>
#include <dnnl.hpp>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace ingot {
namespace {

using namespace cpu;
using dnnl::memory;

constexpr std::int64_t kTokens = 512;
constexpr int kTurns = 15;

struct Shape {
  std::int64_t n;
  std::int64_t k;
};

// x [tokens, k] times w [k, n] to f32, weights in the order that oneDNN likes best.
class OneDnn {
 public:
  OneDnn(const Shape& shape, memory::data_type x, memory::data_type w)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Desc = memory::desc;
    const Desc x_desc({kTokens, shape.k}, x, memory::format_tag::ab);
    const Desc any({shape.k, shape.n}, w, memory::format_tag::any);
    const Desc y_desc({kTokens, shape.n}, memory::data_type::f32, memory::format_tag::ab);
    dnnl::primitive_attr attr;
    if (w == memory::data_type::s8)  // one scale an output, as the own int8 format has
      attr.set_output_scales(1 << 1, std::vector<float>(static_cast<std::size_t>(shape.n), 0.01f));
    const dnnl::matmul::primitive_desc desc({x_desc, any, y_desc}, attr, engine_);
    name_ = desc.impl_info_str();
    product_ = dnnl::matmul(desc);
    const memory quantised = filled(x_desc);
    arguments_ = {{DNNL_ARG_SRC, quantised},
                  {DNNL_ARG_WEIGHTS, filled(desc.weights_desc())},
                  {DNNL_ARG_DST, memory(y_desc, engine_)}};
    const memory floats =
        filled(Desc({kTokens, shape.k}, memory::data_type::f32, memory::format_tag::ab));
    dnnl::primitive_attr scale;
    if (x == memory::data_type::u8) scale.set_output_scales(0, {100.0f});
    quantise_ = dnnl::reorder(dnnl::reorder::primitive_desc(floats, quantised, scale));
    quantise_arguments_ = {{DNNL_ARG_FROM, floats}, {DNNL_ARG_TO, quantised}};
  }
  void quantise() { quantise_.execute(stream_, quantise_arguments_); }
  void run() {
    product_.execute(stream_, arguments_);
    stream_.wait();
  }
  const std::string& name() const { return name_; }

 private:
  memory filled(const memory::desc& desc) const {
    memory m(desc, engine_);
    auto* bytes = static_cast<std::uint8_t*>(m.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(0x11 + i % 31);  // sane as s8, u8 and bf16
    return m;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  dnnl::reorder quantise_;
  std::unordered_map<int, memory> arguments_, quantise_arguments_;
  std::string name_;
};

class Own {
 public:
  Own(ThreadPool& pool, Tier tier, const PackedFormat& format, const Shape& shape)
      : pool_(pool),
        tier_(tier),
        shape_(shape),
        x_(static_cast<std::size_t>(kTokens * shape.k), 0.5f),
        y_(static_cast<std::size_t>(kTokens * shape.n)),
        weights_(packed_bytes(format, shape.n, shape.k) + 64, std::byte{0x11}),
        weight_{.format = &format, .n = shape.n, .k = shape.k, .data = aligned(weights_)} {
    const PackedFormat* formats[] = {&format};
    workspace_bytes_ =
        linear_workspace_bytes(formats, Compute::kNative, kTokens, shape.k, pool.size(), tier);
    workspace_.resize(workspace_bytes_ + 64);
  }
  void run() {
    linear(pool_, {aligned(workspace_), workspace_bytes_},
           {.weights = {&weight_, 1},
            .m = kTokens,
            .x = x_.data(),
            .x_stride = shape_.k,
            .y = y_.data(),
            .y_stride = shape_.n},
           tier_);
  }

 private:
  static std::byte* aligned(std::vector<std::byte>& bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    return bytes.data() + ((at + 63) / 64 * 64 - at);
  }

  ThreadPool& pool_;
  Tier tier_;
  Shape shape_;
  std::vector<float> x_, y_;
  std::vector<std::byte> weights_, workspace_;
  std::size_t workspace_bytes_ = 0;
  PackedWeight weight_;
};

// Idle threads of either side spin for a while after their work.
void let_settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

template <typename Run>
double seconds(Run run) {
  let_settle();
  run();  // wakes the threads
  const double begin = bench::now();
  run();
  return bench::now() - begin;
}

void compare(ThreadPool& pool, Tier tier, const PackedFormat& format, const Shape& shape) {
  const bool bf16 = format.kind == PackedKind::kBf16;
  Own own(pool, tier, format, shape);
  const memory::data_type x = bf16 ? memory::data_type::bf16 : memory::data_type::u8;
  const memory::data_type w = bf16 ? memory::data_type::bf16 : memory::data_type::s8;
  OneDnn peer(shape, x, w);
  double best_own = 1e9, best_peer = 1e9, best_product = 1e9, peak = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    best_own = std::min(best_own, seconds([&] { own.run(); }));
    best_peer = std::min(best_peer, seconds([&] {
                           peer.quantise();
                           peer.run();
                         }));
    best_product = std::min(best_product, seconds([&] { peer.run(); }));
    let_settle();
    peak = std::max(peak, bf16 ? bench::bf16_peak(pool, tier) : bench::int8_peak(pool, tier));
  }
  const double operations = 2.0 * static_cast<double>(kTokens * shape.n * shape.k);
  const auto rate = [&](double s) {
    return fmt::format("{:5.0f} Gop/s {:3.0f} %", operations / s * 1e-9,
                       operations / s / peak * 100);
  };
  fmt::print("{:5} [{:5}, {:5}]  own {}  oneDNN {}  product {}  {}  own / oneDNN {:.2f}\n",
             format.name, shape.n, shape.k, rate(best_own), rate(best_peer), rate(best_product),
             peer.name(), best_peer / best_own);
}

int run(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : usable_cpus();
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  ThreadPool pool(threads);
  Tier tier = best_tier();
  for (int t = 0; t <= static_cast<int>(detected_tier()); ++t)
    if (argc > 2 && tier_name(static_cast<Tier>(t)) == argv[2]) tier = static_cast<Tier>(t);
  fmt::print("{} threads, tier {}, {} tokens\n", pool.size(), tier_name(tier), kTokens);
  for (const char* name : {"int8", "bf16"}) {
    if (std::string(name) == "bf16" && tier < Tier::kAvx512Bf16) continue;
    for (const Shape shape : {Shape{2048, 2048}, {16384, 2048}, {2048, 8192}, {3072, 576}})
      compare(pool, tier, *find_packed_format(name), shape);
  }
  return 0;
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  return ingot::run(argc, argv);
}
