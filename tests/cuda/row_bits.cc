#include "tests/cuda/row_bits.h"

#include "base/error.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "quant/weight_format.h"

#include <fmt/core.h>

#include "tests/ops/op_run.h"
#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

namespace ingot::cuda {
namespace {

using Bytes = std::vector<std::byte>;

// One op on one device, called with host bytes for every operand but states.
class Calls {
 public:
  explicit Calls(Device& device) : device_(device), stream_(device.make_stream()) {}

  std::unique_ptr<Buffer> upload(const Bytes& bytes) {
    auto buffer = device_.allocate(bytes.size(), "row bits");
    device_.copy_in(buffer->data(), bytes, *stream_);
    stream_->synchronize();
    return buffer;
  }

  struct Operand {
    ValueType type;
    std::string layout;
    Buffer* buffer = nullptr;
  };
  // The first result, or nothing when the op has none.
  Bytes run(std::string_view name, const Attrs& attrs, const std::vector<Operand>& operands,
            const DimValues& dims) {
    OpCall call{.op = name, .attrs = &attrs, .max = dims};
    call.page_tokens = device_.page_tokens();
    std::vector<std::byte*> addresses;
    for (const Operand& o : operands) {
      call.operands.push_back(o.type);
      call.layouts.push_back(o.layout);
      addresses.push_back(o.buffer->data());
    }
    call.results = op(name).infer(attrs, call.operands);
    KernelOrReason found = device_.find_kernel(call, code_);
    if (const auto* reason = std::get_if<std::string>(&found))
      throw Error(ErrorCode::kDevice, *reason);
    std::vector<std::unique_ptr<Buffer>> results;
    std::vector<std::byte*> result_addresses;
    for (const ValueType& type : call.results) {
      results.push_back(device_.allocate(type.bytes_at(dims), "row bits"));
      result_addresses.push_back(results.back()->data());
    }
    Kernel& kernel = *std::get<std::unique_ptr<Kernel>>(found);
    const auto workspace = device_.allocate(kernel.workspace_bytes(), "workspace");
    kernel.run({.operands = addresses,
                .results = result_addresses,
                .workspace = workspace->data(),
                .dims = dims,
                .stream = stream_.get()});
    Bytes out(results.empty() ? 0 : results[0]->bytes());
    if (!results.empty()) device_.copy_out(out, results[0]->data(), *stream_);
    stream_->synchronize();
    return out;
  }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
  CodeStore code_;
};

Bytes normals(std::size_t count, std::mt19937& random) {
  RefTensor tensor;
  std::normal_distribution<float> normal;
  tensor.f.resize(count);
  for (float& x : tensor.f) x = normal(random);
  return encode(tensor, DType::kBF16);
}

Bytes integers(std::vector<std::int32_t> values) {
  RefTensor tensor;
  tensor.i = std::move(values);
  return encode(tensor, DType::kI32);
}

DimValues dims_of(std::int64_t tokens, std::int64_t sequences = 0, std::int64_t pages = 0) {
  DimValues dims;
  dims[Symbol::kTokens] = tokens;
  dims[Symbol::kSequences] = sequences;
  dims[Symbol::kPages] = pages;
  return dims;
}

ValueType plain(DType dtype, std::vector<Dim> dims) {
  ValueType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  return type;
}

bool same_row(const Bytes& all, std::size_t row, const Bytes& one) {
  return std::equal(one.begin(), one.end(),
                    all.begin() + static_cast<std::ptrdiff_t>(row * one.size()));
}

struct LinearShape {
  std::string_view format;
  std::int64_t rows;
  std::int64_t columns;
  bool swiglu = false;
};

// 200 rows of x at once against runs of them, alone, in other numbers and at other places.
void check_linear(Device& device, const LinearShape& shape, std::vector<std::string>& failures) {
  constexpr std::int64_t kTokens = 200;
  std::mt19937 random(7);
  Calls calls(device);
  const WeightFormat& format = weight_format(shape.format);
  ValueType weight = plain(DType::kF32, {shape.rows, shape.columns});
  weight.format = &format;
  const WeightUse use{.op = "linear", .operand = 1};
  const auto layout = device.weight_layout(format, weight.at({}), std::span(&use, 1));
  Bytes packed(layout.bytes);
  device.pack_weight(layout, format, weight.at({}),
                     random_rows(format, shape.rows, shape.columns, random), packed);
  const auto weights = calls.upload(packed);
  const Bytes x = normals(kTokens * static_cast<std::size_t>(shape.columns), random);
  const Attrs attrs = write_attrs(LinearAttrs{.swiglu = shape.swiglu, .out = "bf16"});
  const auto run = [&](std::int64_t first, std::int64_t count) {
    const std::int64_t row_bytes = shape.columns * 2;
    const auto rows =
        calls.upload(Bytes(x.begin() + first * row_bytes, x.begin() + (first + count) * row_bytes));
    return calls.run("linear", attrs,
                     {{plain(DType::kBF16, {Symbol::kTokens, shape.columns}), "", rows.get()},
                      {weight, layout.name, weights.get()}},
                     dims_of(count));
  };
  const Bytes all = run(0, kTokens);
  const auto one = static_cast<std::ptrdiff_t>(all.size() / kTokens);
  for (const auto& [first, count] : std::initializer_list<std::pair<int, int>>{{0, 1},
                                                                               {7, 1},
                                                                               {101, 1},
                                                                               {199, 1},
                                                                               {3, 2},
                                                                               {11, 7},
                                                                               {90, 8},
                                                                               {5, 16},
                                                                               {100, 33},
                                                                               {64, 64},
                                                                               {120, 65}})
    if (const Bytes some = run(first, count);
        !std::equal(some.begin(), some.end(), all.begin() + first * one))
      failures.push_back(fmt::format("linear {}[{}, {}]{}: rows {} to {} of {} differ among {}",
                                     shape.format, shape.rows, shape.columns,
                                     shape.swiglu ? " with swiglu" : "", first, first + count - 1,
                                     kTokens, count));
}

// A prompt of 700 tokens at once against its tokens one at a time, and so blocks that go through a
// row's whole context against blocks that share it.
void check_attention(Device& device, DType cache, std::int64_t window,
                     std::vector<std::string>& failures) {
  constexpr std::int64_t kTokens = 700, kHeads = 4, kKvHeads = 2, kDim = 64;
  std::mt19937 random(11);
  Calls calls(device);
  const std::int64_t pages = (kTokens + device.page_tokens() - 1) / device.page_tokens();
  ValueType state;
  state.dtype = cache;
  state.state = {.kv_heads = kKvHeads, .head_dim = kDim, .dtype = cache, .window = window};
  const auto memory = device.allocate(
      device.page_bytes(state.state, device.page_tokens()) * static_cast<std::size_t>(pages),
      "state");
  std::vector<std::int32_t> slots(kTokens);
  std::iota(slots.begin(), slots.end(), 0);
  const auto k = calls.upload(normals(kTokens * kKvHeads * kDim, random));
  const auto v = calls.upload(normals(kTokens * kKvHeads * kDim, random));
  const auto slot = calls.upload(integers(slots));
  const ValueType kv = plain(DType::kBF16, {Symbol::kTokens, kKvHeads * kDim});
  calls.run("kv_append", {},
            {{kv, "", k.get()},
             {kv, "", v.get()},
             {plain(DType::kI32, {Symbol::kTokens}), "", slot.get()},
             {state, "", memory.get()}},
            dims_of(kTokens));

  const Bytes q = normals(kTokens * kHeads * kDim, random);
  std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
  std::iota(table.begin(), table.end(), 0);
  const auto block_table = calls.upload(integers(table));
  const Attrs attrs = write_attrs(AttentionAttrs{
      .heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim, .scale = 0.125, .window = window});
  Dim starts(Symbol::kSequences);
  starts.offset = 1;
  const auto run = [&](std::int64_t first, std::int64_t count) {
    constexpr std::int64_t kRowBytes = kHeads * kDim * 2;
    const auto rows =
        calls.upload(Bytes(q.begin() + first * kRowBytes, q.begin() + (first + count) * kRowBytes));
    const auto start = calls.upload(integers({0, static_cast<std::int32_t>(count)}));
    const auto context = calls.upload(integers({static_cast<std::int32_t>(first + count)}));
    return calls.run(
        "attention", attrs,
        {{plain(DType::kBF16, {Symbol::kTokens, kHeads * kDim}), "", rows.get()},
         {plain(DType::kI32, {starts}), "", start.get()},
         {plain(DType::kI32, {Symbol::kSequences}), "", context.get()},
         {plain(DType::kI32, {Symbol::kSequences, Symbol::kPages}), "", block_table.get()},
         {state, "", memory.get()}},
        dims_of(count, 1, pages));
  };
  const Bytes all = run(0, kTokens);
  for (std::int64_t t = 0; t < kTokens; ++t)
    if (!same_row(all, static_cast<std::size_t>(t), run(t, 1)))
      failures.push_back(fmt::format("attention of {}, window {}: token {} differs alone",
                                     dtype_name(cache), window, t));
}

}  // namespace

std::vector<std::string> check_row_bits(Device& device) {
  std::vector<std::string> failures;
  // Of tiles: even and uneven slices, rows and columns that fill no tile, fewer pieces than slices.
  for (const LinearShape& shape : std::initializer_list<LinearShape>{
           {"f32", 96, 512},
           {"q4_1", 96, 512},
           {"q6_k", 96, 512},
           {"bf16", 96, 512},
           {"bf16", 4100, 1984},
           {"bf16", 37, 333},
           {"bf16", 12288, 96, true},
           {"int8", 96, 1000},
           {"int8", 53, 77},
           {"int8", 160, 4096, true},
           {"int4", 96, 4160},
           {"int4", 8450, 192},
           {"q4_0", 70, 4128},
           {"q4_0", 6144, 96},
           {"q4_0", 128, 2048, true},
           {"q8_0", 96, 992},
           {"q8_0", 4352, 64},
       })
    check_linear(device, shape, failures);
  for (const DType cache : {DType::kBF16, DType::kI8, DType::kE4M3})
    for (const std::int64_t window : {0, 40, 300}) check_attention(device, cache, window, failures);
  return failures;
}

}  // namespace ingot::cuda
