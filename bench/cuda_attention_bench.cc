// Decode attention of one layer on the first GPU over a KV cache in bf16, int8 and fp8, as a share
// of the bandwidth of a large copy within the device (bytes read and written) in the same process.
//
//   cuda_attention_bench
#include "base/error.h"
#include "cuda/device.h"
#include "ops/attrs.h"
#include "ops/ops.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace ingot {
namespace {

constexpr std::size_t kColdBytes = std::size_t{1} << 30;  // far more than any L2

struct Shape {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t dim;
};

template <typename T>
std::unique_ptr<Buffer> upload(Device& device, Stream& stream, const std::vector<T>& values) {
  auto buffer = device.allocate(values.size() * sizeof(T), "bench");
  device.copy_in(buffer->data(), std::as_bytes(std::span(values)), stream);
  stream.synchronize();
  return buffer;
}

double median_seconds(Stream& stream, int calls, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> samples;
  for (int i = 0; i < 8; ++i) {
    const auto start = Clock::now();
    for (int c = 0; c < calls; ++c) work();
    stream.synchronize();
    if (i > 0)
      samples.push_back(std::chrono::duration<double>(Clock::now() - start).count() / calls);
  }
  std::nth_element(samples.begin(), samples.begin() + 3, samples.end());
  return samples[3];
}

double copy_bandwidth(Device& device, Stream& stream) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const auto from = device.allocate(kBytes, "bench");
  const auto to = device.allocate(kBytes, "bench");
  const double seconds = median_seconds(
      stream, 4, [&] { device.copy_within(to->data(), from->data(), kBytes, stream); });
  return 2.0 * static_cast<double>(kBytes) / seconds;
}

// Normal numbers in bf16; in 8 bit random codes that are numbers, and scales.
std::vector<std::byte> random_page(const StateSpec& spec, std::size_t bytes, std::int64_t tokens) {
  std::mt19937 random(1);
  std::vector<std::byte> page(bytes);
  const auto values = static_cast<std::size_t>(2 * spec.kv_heads * spec.head_dim * tokens);
  if (spec.dtype == DType::kBF16) {
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < values; ++i) {
      const float x = normal(random);
      std::memcpy(&page[2 * i], reinterpret_cast<const std::byte*>(&x) + 2, 2);
    }
    return page;
  }
  for (std::size_t i = 0; i < values; ++i) {
    const auto code = static_cast<std::uint8_t>(8 + random() % 100);
    page[i] = static_cast<std::byte>(random() % 2 ? code | 0x80 : code);
  }
  const float scale = 0.01f;
  for (std::size_t at = values; at < bytes; at += sizeof scale)
    std::memcpy(&page[at], &scale, sizeof scale);
  return page;
}

ValueType plain(DType dtype, std::vector<Dim> dims) {
  ValueType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  return type;
}

void bench(Device& device, const Shape& shape, DType dtype, std::int64_t batch,
           std::int64_t context, double limit) {
  const auto stream = device.make_stream();
  const std::int64_t page_tokens = device.page_tokens();
  const std::int64_t width = (context + page_tokens - 1) / page_tokens;
  const StateSpec spec{.kv_heads = shape.kv_heads, .head_dim = shape.dim, .dtype = dtype};
  const std::size_t page_bytes = device.page_bytes(spec, page_tokens);
  const auto pages = static_cast<std::size_t>(batch * width);
  const auto page = random_page(spec, page_bytes, page_tokens);
  std::vector<std::unique_ptr<Buffer>> layers;
  do {
    layers.push_back(device.allocate(pages * page_bytes, "bench"));
    for (std::size_t p = 0; p < pages; ++p)
      device.copy_in(layers.back()->data() + p * page_bytes, page, *stream);
  } while (layers.size() * pages * page_bytes < kColdBytes);
  std::vector<std::int32_t> table(pages);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::minstd_rand(1));
  std::vector<std::int32_t> start(static_cast<std::size_t>(batch) + 1);
  std::iota(start.begin(), start.end(), 0);
  const std::vector<std::int32_t> lengths(static_cast<std::size_t>(batch),
                                          static_cast<std::int32_t>(context));
  const std::vector<std::uint16_t> q(static_cast<std::size_t>(batch * shape.heads * shape.dim),
                                     0x3f00);
  const auto queries = upload(device, *stream, q), starts = upload(device, *stream, start),
             contexts = upload(device, *stream, lengths), tables = upload(device, *stream, table),
             out = upload(device, *stream, q);

  const Attrs attrs =
      write_attrs(AttentionAttrs{.heads = shape.heads,
                                 .kv_heads = shape.kv_heads,
                                 .head_dim = shape.dim,
                                 .scale = 1 / std::sqrt(static_cast<double>(shape.dim))});
  Dim after(Symbol::kSequences);
  after.offset = 1;
  ValueType state;
  state.dtype = dtype;
  state.state = spec;
  OpCall call{.op = "attention", .attrs = &attrs};
  call.operands = {plain(DType::kBF16, {Symbol::kTokens, shape.heads * shape.dim}),
                   plain(DType::kI32, {after}), plain(DType::kI32, {Symbol::kSequences}),
                   plain(DType::kI32, {Symbol::kSequences, Symbol::kPages}), state};
  call.layouts.resize(call.operands.size());
  call.results = op("attention").infer(attrs, call.operands);
  call.page_tokens = page_tokens;
  call.max[Symbol::kTokens] = call.max[Symbol::kSequences] = batch;
  call.max[Symbol::kPages] = width;
  CodeStore code;
  KernelOrReason found = device.find_kernel(call, code);
  if (const auto* reason = std::get_if<std::string>(&found))
    throw Error(ErrorCode::kDevice, *reason);
  Kernel& kernel = *std::get<std::unique_ptr<Kernel>>(found);
  const auto workspace = device.allocate(kernel.workspace_bytes(), "workspace");

  std::size_t layer = 0;
  const auto step = [&] {
    std::byte* const operands[] = {queries->data(), starts->data(), contexts->data(),
                                   tables->data(), layers[layer++ % layers.size()]->data()};
    std::byte* const results[] = {out->data()};
    kernel.run({.operands = operands,
                .results = results,
                .workspace = workspace->data(),
                .dims = call.max,
                .stream = stream.get()});
  };
  const double seconds = median_seconds(*stream, 64, step);
  const double bytes =
      static_cast<double>(batch * context) * static_cast<double>(state_token_bytes(spec));
  fmt::print("{:2}/{}x{:3} {:5} batch {:3} at {:6}: {:9.2f} us {:8.1f} GB/s {:6.1f} %\n",
             shape.heads, shape.kv_heads, shape.dim, dtype_name(dtype), batch, context,
             seconds * 1e6, bytes / seconds * 1e-9, 100 * bytes / seconds / limit);
  std::fflush(stdout);
}

void run() {
  const auto device = cuda::make_cuda_device(0);
  const auto stream = device->make_stream();
  const double limit = copy_bandwidth(*device, *stream);
  fmt::print("{}: copies {:.0f} GB/s\n", device->info().description, limit * 1e-9);
  for (const Shape& shape : {Shape{32, 8, 128}, {32, 8, 64}, {9, 3, 64}})
    for (const DType dtype : {DType::kBF16, DType::kI8, DType::kE4M3})
      for (const auto& [batch, context] : std::initializer_list<std::pair<int, int>>{
               {1, 512}, {1, 4096}, {1, 32768}, {8, 4096}, {64, 512}, {64, 4096}})
        bench(*device, shape, dtype, batch, context, limit);
}

}  // namespace
}  // namespace ingot

int main() {
  try {
    ingot::run();
    return 0;
  } catch (const ingot::Error& e) {
    fmt::print(stderr, "{}\n", e.message());
    return ingot::describe(e.code()).exit_code;
  }
}
