#include "tests/ops/reference_device.h"

#include "base/check.h"
#include "base/error.h"
#include "ops/ops.h"
#include "ops/reference/compose.h"
#include "ops/reference/evaluate.h"
#include "ops/reference/kv_row.h"

#include "tests/ops/forwarding_device.h"
#include "tests/ops/op_run.h"
#include <algorithm>
#include <cstring>

namespace ingot {

namespace {

// K or V of a page in 8 bit: codes [tokens][heads][dim], then scales [tokens][heads], both ways.
void move_rows(const StateSpec& spec, std::byte* memory, std::span<float> values, bool to_memory) {
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  const std::size_t rows = values.size() / dim;
  auto* codes = reinterpret_cast<std::uint8_t*>(memory);
  std::byte* scales = memory + values.size();
  for (std::size_t r = 0; r < rows; ++r) {
    float scale = 0;
    const std::span row = values.subspan(r * dim, dim);
    if (to_memory) {
      scale = encode_kv_row(spec.dtype, row, {codes + r * dim, dim});
      std::memcpy(scales + r * sizeof scale, &scale, sizeof scale);
    } else {
      std::memcpy(&scale, scales + r * sizeof scale, sizeof scale);
      decode_kv_row(spec.dtype, {codes + r * dim, dim}, scale, row);
    }
  }
}

// The layout of a page, both ways.
void move_state(const StateSpec& spec, std::byte* memory, RefState& state, bool to_memory) {
  const std::size_t block =
      static_cast<std::size_t>(state.page_tokens * spec.kv_heads * spec.head_dim);
  const bool scaled = state_scale_bytes(spec.dtype) > 0;
  const std::size_t block_bytes =
      static_cast<std::size_t>(state.page_tokens) * state_token_bytes(spec) / 2;
  for (std::size_t page = 0; page < state.k.size() / block; ++page)
    for (const bool is_v : {false, true}) {
      std::vector<float>& values = is_v ? state.v : state.k;
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(page * block);
      std::byte* at = memory + (2 * page + (is_v ? 1 : 0)) * block_bytes;
      if (scaled) {
        move_rows(spec, at, {values.data() + page * block, block}, to_memory);
      } else if (to_memory) {
        RefTensor part;
        part.f.assign(first, first + static_cast<std::ptrdiff_t>(block));
        const std::vector<std::byte> bytes = encode(part, spec.dtype);
        std::memcpy(at, bytes.data(), bytes.size());
      } else {
        const std::vector<float> numbers = decode({at, block_bytes}, spec.dtype);
        std::copy(numbers.begin(), numbers.end(), first);
      }
    }
}

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const OpCall& call)
      : op_(op(call.op)),
        attrs_(*call.attrs),
        operands_(call.operands),
        results_(call.results),
        page_tokens_(call.page_tokens),
        name_(std::string(call.op) + ".reference") {}

  std::string_view name() const override { return name_; }

  void run(const KernelArgs& args) override {
    std::vector<RefTensor> tensors(operands_.size());
    std::vector<RefState> states(operands_.size());
    std::vector<const RefTensor*> operands(operands_.size(), nullptr);
    std::vector<RefState*> state_of(operands_.size(), nullptr);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].state == StateSpec{}) {
        tensors[i] = load(operands_[i], args.operands[i], args.dims);
        operands[i] = &tensors[i];
      }
    }
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].state == StateSpec{}) continue;
      states[i] = make_ref_state(operands_[i].state, pages(tensors), page_tokens_);
      move_state(operands_[i].state, args.operands[i], states[i], false);
      state_of[i] = &states[i];
    }
    std::vector<RefTensor> results;
    for (const ValueType& type : results_)
      results.push_back(make_ref(type.at(args.dims), type.dtype));
    run_op_reference(
        op_, {.attrs = attrs_, .operands = operands, .states = state_of, .results = results},
        operands_[0].dtype);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::vector<std::byte> bytes = encode(results[i], results_[i].dtype);
      if (!bytes.empty()) std::memcpy(args.results[i], bytes.data(), bytes.size());
    }
    if (op_.writes_state)
      for (std::size_t i = 0; i < operands_.size(); ++i)
        if (state_of[i]) move_state(operands_[i].state, args.operands[i], states[i], true);
  }

 private:
  // A kernel is not told how many pages there are: as many as its indices name.
  std::int64_t pages(const std::vector<RefTensor>& tensors) const {
    const bool reads = op_.reads_state;
    const std::size_t index = reads ? 3 : op_.name == "kv_append" ? 2 : 4;
    std::int64_t last = 0;
    for (const std::int32_t i : tensors[index].i) last = std::max<std::int64_t>(last, i);
    return (reads ? last : last / page_tokens_) + 1;
  }

  static RefTensor load(const ValueType& type, const std::byte* memory, const DimValues& dims) {
    RefTensor tensor = make_ref(type.at(dims), type.dtype);
    if (type.format) {
      const Shape& s = tensor.shape;
      const std::int64_t rows = s.rank() == 2 ? s[0] : 1, k = s.rank() == 2 ? s[1] : s.elements();
      for (std::int64_t r = 0; r < rows; ++r)
        type.format->dequantize_row(
            memory + static_cast<std::size_t>(r) * type.format->row_bytes(k), k,
            tensor.f.data() + r * k);
    } else if (is_float(type.dtype)) {
      tensor.f = decode({memory, type.bytes_at(dims)}, type.dtype);
    } else if (!tensor.i.empty()) {
      std::memcpy(tensor.i.data(), memory, tensor.i.size() * sizeof(std::int32_t));
    }
    return tensor;
  }

  const OpDef& op_;
  Attrs attrs_;
  std::vector<ValueType> operands_, results_;
  std::int64_t page_tokens_;
  std::string name_;
};

// All but kernels is the null device's: memory, layouts, pages.
class ReferenceDevice final : public test::ForwardingDevice {
 public:
  explicit ReferenceDevice(std::int64_t page_tokens)
      : ForwardingDevice(make_null_device()), page_tokens_(page_tokens) {}

  DeviceInfo info() const override {
    DeviceInfo info = ForwardingDevice::info();
    info.target = "reference";
    info.description = "plain loops";
    return info;
  }
  std::int64_t page_tokens() const override { return page_tokens_; }
  KernelOrReason find_kernel(const OpCall& call, CodeStore&) const override {
    for (const auto& types : {call.operands, call.results})
      for (const ValueType& type : types)
        if (type.state == StateSpec{} && !has_encoding(type.dtype))
          return fmt::format("{} of {}", call.op, to_string(type));
    return std::make_unique<ReferenceKernel>(call);
  }

 private:
  std::int64_t page_tokens_;
};

}  // namespace

std::unique_ptr<Device> make_reference_device(std::int64_t page_tokens) {
  return std::make_unique<ReferenceDevice>(page_tokens);
}

}  // namespace ingot
