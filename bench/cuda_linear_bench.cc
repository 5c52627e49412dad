// Matrices of Llama 3.1 8B times a few rows on the first GPU, as a share of the bandwidth that a
// kernel which only reads has in the same process. Weights come from memory: each call takes others
// than the one before.
//
//   cuda_linear_bench [FORMAT]...
#include "base/error.h"
#include "cuda/binding.h"
#include "cuda/context.h"
#include "cuda/device.h"
#include "cuda/nvrtc_api.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "quant/weight_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ingot {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{4} << 30;

double median_seconds(Stream& stream, std::size_t calls, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> samples;
  for (int i = 0; i < 8; ++i) {
    const auto start = Clock::now();
    for (std::size_t c = 0; c < calls; ++c) work();
    stream.synchronize();
    if (i > 0)
      samples.push_back(std::chrono::duration<double>(Clock::now() - start).count() /
                        static_cast<double>(calls));
  }
  std::nth_element(samples.begin(), samples.begin() + 3, samples.end());
  return samples[3];
}

// Normal numbers in bf16; other formats read them as whatever they are.
std::unique_ptr<Buffer> make_pool(Device& device, Stream& stream) {
  auto pool = device.allocate(kPoolBytes, "bench");
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> some(std::size_t{16} << 20);
  for (std::size_t i = 0; i < some.size(); i += 2) {
    const float x = normal(random);
    std::memcpy(&some[i], reinterpret_cast<const std::byte*>(&x) + 2, 2);
  }
  device.copy_in(pool->data(), some, stream);
  for (std::size_t done = some.size(); done < kPoolBytes; done *= 2)
    device.copy_within(pool->data() + done, pool->data(), std::min(done, kPoolBytes - done),
                       stream);
  stream.synchronize();
  return pool;
}

constexpr const char* kReader = R"(
extern "C" __global__ void __launch_bounds__(512) read(const uint4* from, unsigned long long count,
                                                       unsigned* out) {
  unsigned sum = 0;
  const unsigned long long stride = 8ull * gridDim.x * blockDim.x;
  for (unsigned long long i = blockIdx.x * 8ull * blockDim.x + threadIdx.x; i < count; i += stride) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = __ldcs(from + i + j * blockDim.x);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  if (sum == 0x12345678) *out = sum;
}
)";

void expect(int status, const char* what) {
  if (status != 0) fail(ErrorCode::kDevice, "[bench] {}: {}", what, status);
}

double read_bandwidth(const Device& device, std::byte* pool, std::byte* out) {
  const Result<cuda::NvrtcApi>& nvrtc = cuda::nvrtc_api();
  if (!nvrtc) throw nvrtc.error();
  cuda::NvrtcProgram program = nullptr;
  expect(nvrtc->create_program(&program, kReader, "read.cu", 0, nullptr, nullptr), "create");
  const std::string arch = "--gpu-architecture=" + device.info().target;
  const char* options[] = {arch.c_str()};
  expect(nvrtc->compile_program(program, 1, options), "compile");
  std::size_t size = 0;
  expect(nvrtc->get_cubin_size(program, &size), "size of cubin");
  std::string cubin(size, '\0');
  expect(nvrtc->get_cubin(program, cubin.data()), "cubin");
  const auto context = std::make_shared<cuda::Context>(0);
  const auto function = context->load("read", cubin, "read", false);
  cuda::CudaStream stream(context);
  double best = 0;
  for (const unsigned blocks_each : {1u, 2u, 4u}) {
    const unsigned blocks = static_cast<unsigned>(context->multiprocessors()) * blocks_each;
    const double seconds = median_seconds(stream, 2, [&] {
      std::size_t count = kPoolBytes / 16;
      void* arguments[] = {&pool, &count, &out};
      context->expect(context->api().launch_kernel(function, blocks, 1, 1, 512, 1, 1, 0,
                                                   stream.handle(), arguments, nullptr),
                      "cuLaunchKernel");
    });
    best = std::max(best, static_cast<double>(kPoolBytes) / seconds);
  }
  return best;
}

struct Case {
  std::string_view name;
  std::int64_t rows;
  std::int64_t columns;
  LinearAttrs attrs;
};
const Case kCases[] = {
    {"q, k, v", 6144, 4096, {.out = "bf16"}},
    {"o", 4096, 4096, {.residual = true, .out = "bf16"}},
    {"gate, up", 28672, 4096, {.swiglu = true, .out = "bf16"}},
    {"down", 4096, 14336, {.residual = true, .out = "bf16"}},
    {"head", 128256, 4096, {.out = "f32"}},
};

ValueType plain(DType dtype, std::vector<Dim> dims) {
  ValueType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  return type;
}

struct Memory {
  Device& device;
  Stream& stream;
  std::byte* pool;
  std::byte* activations;  // room for any x, residual and result
  double limit;            // bytes a second
};

double bench(const Memory& memory, const Case& c, const WeightFormat& format, bool tiles,
             std::int64_t tokens) {
  const Attrs attrs = write_attrs(c.attrs);
  OpCall call{.op = "linear", .attrs = &attrs};
  ValueType weight = plain(DType::kF32, {c.rows, c.columns});
  weight.format = &format;
  const WeightUse use{.op = "linear", .operand = 1};
  WeightLayout layout = memory.device.weight_layout(
      format, weight.at({}), tiles ? std::span(&use, 1) : std::span<const WeightUse>());
  call.operands = {plain(DType::kBF16, {Symbol::kTokens, c.columns}), weight};
  call.layouts = {"", layout.name};
  if (c.attrs.residual) {
    call.operands.push_back(plain(DType::kBF16, {Symbol::kTokens, c.rows}));
    call.layouts.emplace_back();
  }
  call.results = op("linear").infer(attrs, call.operands);
  call.max[Symbol::kTokens] = tokens;
  CodeStore code;
  KernelOrReason found = memory.device.find_kernel(call, code);
  if (const auto* reason = std::get_if<std::string>(&found))
    throw Error(ErrorCode::kDevice, *reason);
  Kernel& kernel = *std::get<std::unique_ptr<Kernel>>(found);

  const std::size_t step = (layout.bytes + 255) / 256 * 256;
  std::size_t at = 0;
  const auto run = [&] {
    if (at + step > kPoolBytes) at = 0;
    std::byte* const operands[] = {memory.activations, memory.pool + at,
                                   memory.activations + (4 << 20)};
    std::byte* const results[] = {memory.activations + (8 << 20)};
    kernel.run({.operands = std::span(operands).first(call.operands.size()),
                .results = results,
                .dims = call.max,
                .stream = &memory.stream});
    at += step;
  };
  const auto calls = std::clamp<std::size_t>(
      static_cast<std::size_t>(12e9 / static_cast<double>(layout.bytes)), 12, 512);
  const double seconds = median_seconds(memory.stream, tiles ? calls : 8, run);
  const double rate = static_cast<double>(layout.bytes) / seconds;
  fmt::print("{:5} {:9} [{:6}, {:5}] {:5} rows {:3}: {:9.2f} us {:7.0f} GB/s {:6.1f} %\n",
             format.name, c.name, c.rows, c.columns, tiles ? "tiles" : "plain", tokens,
             seconds * 1e6, rate * 1e-9, 100 * rate / memory.limit);
  std::fflush(stdout);
  return seconds;
}

void run(std::vector<std::string> formats) {
  if (formats.empty()) formats = {"bf16", "int8", "q8_0", "int4", "q4_0"};
  const auto device = cuda::make_cuda_device(0);
  const auto stream = device->make_stream();
  const auto pool = make_pool(*device, *stream);
  constexpr std::size_t kActivationBytes = std::size_t{192} << 20;
  const auto activations = device->allocate(kActivationBytes, "bench");
  device->copy_within(activations->data(), pool->data(), kActivationBytes, *stream);
  stream->synchronize();
  const double limit = read_bandwidth(*device, pool->data(), activations->data());
  fmt::print("{}: reads {:.0f} GB/s\n", device->info().description, limit * 1e-9);
  const Memory memory{*device, *stream, pool->data(), activations->data(), limit};
  for (const std::string& name : formats) {
    const WeightFormat& format = weight_format(name);
    for (const std::int64_t tokens : {1, 8, 32}) {
      double layer = 0;
      for (const Case& c : kCases) {
        const double seconds = bench(memory, c, format, true, tokens);
        if (c.name != "head") layer += seconds;
      }
      fmt::print("{:5} four matrices of a layer, rows {:3}: {:9.2f} us\n", name, tokens,
                 layer * 1e6);
    }
    for (const std::int64_t tokens : {64, 512}) bench(memory, kCases[1], format, true, tokens);
    for (const std::int64_t tokens : {1, 8, 32, 512})
      bench(memory, kCases[1], format, false, tokens);
  }
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  try {
    ingot::run({argv + 1, argv + argc});
    return 0;
  } catch (const ingot::Error& e) {
    fmt::print(stderr, "{}\n", e.message());
    return ingot::describe(e.code()).exit_code;
  }
}
