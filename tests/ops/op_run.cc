#include "tests/ops/op_run.h"

#include "base/check.h"
#include "base/error.h"
#include "base/half.h"
#include "base/hash.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "ops/reference/compose.h"
#include "ops/reference/evaluate.h"
#include "ops/reference/kv_row.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

namespace ingot {

namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kUnwritten{0xff};  // a NaN in every floating type
constexpr std::size_t kColdBytes = std::size_t{512} << 20;

std::size_t matrix_index(const OpCase& sample) {
  for (std::size_t i = 0; i < sample.operands.size(); ++i)
    if (sample.operands[i].fill == Fill::kWeight) return i;
  return sample.operands.size();
}

Attrs own_attrs(const Attrs& attrs, DType activation) {
  Attrs result = attrs;
  for (const char* name : {"out", "to"})
    if (const AttrValue* value = attrs.find(name))
      if (std::get<std::string>(*value) == "bf16")
        result.set(name, std::string(dtype_name(activation)));
  return result;
}

float round_to(float x, DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return bf16_to_f32(f32_to_bf16(x));
    case DType::kF16:
      return f16_to_f32(f32_to_f16(x));
    case DType::kE4M3:
      return e4m3_to_f32(f32_to_e4m3(x));
    default:
      return x;
  }
}

void round_all(std::vector<float>& values, DType dtype) {
  for (float& x : values) x = round_to(x, dtype);
}

// As memory keeps it; 8-bit states are rounded where they are written, by kv_append's reference.
void round_state(RefState& state) {
  if (state_scale_bytes(state.dtype) > 0) return;
  round_all(state.k, state.dtype);
  round_all(state.v, state.dtype);
}

// Rows that were appended to an 8-bit state, from the numbers that were appended.
void round_appended(const RefState& before, RefState& after, DType activations) {
  const auto dim = static_cast<std::size_t>(before.head_dim);
  const auto round_changed = [&](const std::vector<float>& old, std::vector<float>& now) {
    for (std::size_t at = 0; at < now.size(); at += dim) {
      const std::span row(now.data() + at, dim);
      if (std::ranges::equal(row, std::span(old.data() + at, dim))) continue;
      for (float& x : row) x = round_to(x, activations);
      round_kv_row(before.dtype, row);
    }
  };
  round_changed(before.k, after.k);
  round_changed(before.v, after.v);
  after.dtype = before.dtype;
}

DimValues larger(const DimValues& dims) {
  DimValues result = dims;
  for (std::size_t i = 1; i < result.values.size(); ++i) result.values[i] = dims.values[i] * 2 + 1;
  return result;
}

// One block at a time, until it holds sensible numbers.
void random_block(const WeightFormat& format, std::byte* bytes, std::mt19937& random) {
  const std::size_t size = format.row_bytes(format.block);
  std::vector<float> values(static_cast<std::size_t>(format.block));
  for (int attempt = 0; attempt < 100000; ++attempt) {
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random());
    format.dequantize_row(bytes, format.block, values.data());
    double largest = 0;
    for (const float v : values)
      largest = std::isfinite(v) ? std::max<double>(largest, std::fabs(v)) : INFINITY;
    if (largest > 0.01 && largest < 1.0) return;
  }
  check(false, "no random block of this format holds sensible numbers");
}

ValueType tensor_type(DType dtype, std::vector<Dim> dims) {
  ValueType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  return type;
}

}  // namespace

void run_op_reference(const OpDef& op, const RefCall& call, DType activations) {
  std::vector<RefState> before;
  for (RefState* state : call.states) {
    before.push_back(state ? *state : RefState());
    if (state && op.writes_state && state_scale_bytes(state->dtype) > 0) state->dtype = DType::kF32;
  }
  op.reference(call);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (call.states[i] && call.states[i]->dtype != before[i].dtype)
      round_appended(before[i], *call.states[i], activations);
}

bool takes_matrix(const OpCase& sample) {
  return matrix_index(sample) < sample.operands.size();
}

bool fits_format(const OpCase& sample, const WeightFormat& format) {
  return sample.operands[matrix_index(sample)].type.dims[1].offset % format.block == 0;
}

std::vector<std::byte> random_rows(const WeightFormat& format, std::int64_t rows, std::int64_t k,
                                   std::mt19937& random) {
  std::vector<std::byte> bytes(weight_bytes(format, rows, k));
  const std::size_t row_bytes = format.row_bytes(k);
  std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(static_cast<float>(k)));
  std::vector<float> values(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::byte* row = bytes.data() + static_cast<std::size_t>(r) * row_bytes;
    if (format.quantize_row) {
      for (float& v : values) v = normal(random);
      format.quantize_row(values.data(), k, row);
    } else {
      const std::size_t block_bytes = format.row_bytes(format.block);
      for (std::int64_t b = 0; b < k / format.block; ++b)
        random_block(format, row + static_cast<std::size_t>(b) * block_bytes, random);
    }
  }
  return bytes;
}

bool has_encoding(DType dtype) {
  return (is_float(dtype) && dtype != DType::kE5M2) || dtype == DType::kI32;
}

std::vector<std::byte> encode(const RefTensor& tensor, DType dtype) {
  const std::size_t count = is_float(dtype) ? tensor.f.size() : tensor.i.size();
  std::vector<std::byte> bytes(count * dtype_bytes(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + i * dtype_bytes(dtype);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    if (dtype == DType::kF32)
      put(tensor.f[i]);
    else if (dtype == DType::kBF16)
      put(f32_to_bf16(tensor.f[i]));
    else if (dtype == DType::kF16)
      put(f32_to_f16(tensor.f[i]));
    else if (dtype == DType::kE4M3)
      put(f32_to_e4m3(tensor.f[i]));
    else if (dtype == DType::kI32)
      put(tensor.i[i]);
    else
      check(false, "the driver has no encoding for this dtype");
  }
  return bytes;
}

std::vector<float> decode(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / dtype_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte* at = bytes.data() + i * dtype_bytes(dtype);
    std::uint16_t half = 0;
    if (dtype == DType::kF32) {
      std::memcpy(&values[i], at, 4);
    } else if (dtype == DType::kBF16 || dtype == DType::kF16) {
      std::memcpy(&half, at, 2);
      values[i] = dtype == DType::kBF16 ? bf16_to_f32(half) : f16_to_f32(half);
    } else {
      check(dtype == DType::kE4M3, "the driver has no decoding for this dtype");
      values[i] = e4m3_to_f32(static_cast<std::uint8_t>(*at));
    }
  }
  return values;
}

OpRun::OpRun(Device& device, const OpDef& op, const OpRunSpec& spec)
    : device_(device),
      op_(op),
      spec_(spec),
      attrs_(own_attrs(spec.sample->attrs, device.activation_dtype(spec.mode))),
      dims_(spec.sample->dims),
      page_tokens_(spec.sample->page_tokens > 0 ? spec.sample->page_tokens : device.page_tokens()),
      random_(static_cast<std::mt19937::result_type>(hash64(spec.sample->name))),
      stream_(device.make_stream()) {
  check(page_tokens_ >= 16, "sample cases want pages of 16 tokens or more");
  OpCall call{.op = op.name, .attrs = &attrs_, .max = larger(dims_), .mode = spec.mode};
  call.page_tokens = page_tokens_;
  for (std::size_t i = 0; i < spec.sample->operands.size(); ++i) {
    Operand operand;
    operand.type = own_type(spec.sample->operands[i]);
    operand.shape = operand.type.at(dims_);
    if (operand.is_weight()) {
      const WeightUse use{.op = op.name, .operand = static_cast<int>(i)};
      operand.layout =
          device.weight_layout(*operand.type.format, operand.shape, std::span(&use, 1));
    }
    call.operands.push_back(operand.type);
    call.layouts.push_back(operand.layout.name);
    operands_.push_back(std::move(operand));
  }
  call.results = op.infer(attrs_, call.operands);
  KernelOrReason found = device.find_kernel(call, code_);
  if (const auto* reason = std::get_if<std::string>(&found)) {
    missing_ = reason->empty() ? "no reason given" : *reason;
    return;
  }
  kernel_ = std::move(std::get<std::unique_ptr<Kernel>>(found));
  workspace_ = device.allocate(kernel_->workspace_bytes(), "workspace");
  for (std::size_t i = 0; i < operands_.size(); ++i) fill(operands_[i], spec.sample->operands[i]);
  for (const ValueType& type : call.results) {
    Result result;
    result.type = type;
    result.wanted = make_ref(type.at(dims_), type.dtype);
    result.bytes = type.bytes_at(dims_);
    result.buffer = device.allocate(result.bytes + kGuardBytes, "result");
    results_.push_back(std::move(result));
  }
}

OpRun::~OpRun() = default;

// Formats that are no plain dtype allow 8 bits. Tiers with BF16 instructions say so in their name.
ActivationRounding OpRun::activation_rounding() const {
  if (op_.name == "attention") return attention_rounding(*kernel_);
  if (!spec_.format || spec_.mode != ComputeMode::kNative) return ActivationRounding::kNone;
  if (!spec_.format->exact_dtype) return ActivationRounding::kInt8;
  const bool bf16 = spec_.format->name == "bf16" && kernel_name().ends_with("_bf16");
  return bf16 ? ActivationRounding::kBf16 : ActivationRounding::kNone;
}

// The native cache is bf16. Beside int8 a device may keep queries and probabilities in 16-bit fixed
// point.
ActivationRounding OpRun::attention_rounding(const Kernel& kernel) const {
  if (spec_.mode != ComputeMode::kNative) return ActivationRounding::kNone;
  for (const Operand& o : operands_)
    if (o.is_state() && o.type.state.dtype == DType::kI8) return ActivationRounding::kInt16;
  return kernel.name().ends_with("_bf16") ? ActivationRounding::kBf16 : ActivationRounding::kNone;
}

std::string OpRun::kernel_name() const {
  return std::string(kernel_->name());
}

ValueType OpRun::own_type(const OperandCase& sample) const {
  ValueType type = sample.type;
  if (type.state != StateSpec{}) {
    if (type.state.dtype == DType::kBF16) type.state.dtype = device_.kv_dtype(spec_.mode);
    type.dtype = type.state.dtype;
  } else if (type.format) {
    if (sample.fill == Fill::kWeight && spec_.format) type.format = spec_.format;
  } else if (type.dtype == DType::kBF16) {
    type.dtype = device_.activation_dtype(spec_.mode);
  }
  return type;
}

std::unique_ptr<Buffer> OpRun::upload(std::span<const std::byte> bytes) {
  auto buffer = device_.allocate(bytes.size(), "operand");
  device_.copy_in(buffer->data(), bytes, *stream_);
  stream_->synchronize();
  return buffer;
}

void OpRun::fill(Operand& operand, const OperandCase& sample) {
  if (operand.is_state()) return fill_state(operand);
  if (operand.is_weight() && sample.fill == Fill::kWeight) return fill_weight(operand, sample, 0);
  operand.tensor = make_ref(operand.shape, operand.type.dtype);
  std::normal_distribution<float> normal;
  for (float& x : operand.tensor.f)
    x = sample.fill == Fill::kNearOne ? 1.0f + 0.1f * normal(random_) : normal(random_);
  for (std::int32_t& x : operand.tensor.i)
    x = sample.fill == Fill::kIndex
            ? static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(sample.limit))
            : 0;
  if (sample.fill == Fill::kGiven) {
    check(sample.given.size() == operand.tensor.i.size() &&
              sample.given_f.size() == operand.tensor.f.size(),
          "a sample case gives another number of values than its shape");
    operand.tensor.i = sample.given;
    operand.tensor.f = sample.given_f;
  }
  round_all(operand.tensor.f, operand.type.dtype);
  operand.host = encode(operand.tensor, operand.type.dtype);
  if (operand.is_weight()) return fill_weight(operand, sample, 1);
  operand.buffers.push_back(upload(operand.host));
}

// Matrices (index 0) get random rows of their format, vectors the rows they have.
void OpRun::fill_weight(Operand& operand, const OperandCase&, std::size_t index) {
  const WeightFormat& format = *operand.type.format;
  if (index == 0) {
    const std::int64_t rows = operand.shape[0], k = operand.shape[1];
    operand.host = random_rows(format, rows, k, random_);
    operand.tensor = make_ref(operand.shape);
    for (std::int64_t r = 0; r < rows; ++r)
      format.dequantize_row(operand.host.data() + static_cast<std::size_t>(r) * format.row_bytes(k),
                            k, operand.tensor.f.data() + r * k);
  }
  std::vector<std::byte> packed(operand.layout.bytes);
  device_.pack_weight(operand.layout, format, operand.shape, operand.host, packed);
  std::vector<std::byte> back(operand.host.size());
  device_.unpack_weight(operand.layout, format, operand.shape, packed, back);
  if (back != operand.host)
    fail(ErrorCode::kBug, "[op_driver] layout {} of {}{} does not unpack to what was packed",
         operand.layout.name, format.name, to_string(operand.shape));
  const std::size_t copies =
      spec_.cold_weights && index == 0
          ? std::clamp<std::size_t>(kColdBytes / std::max<std::size_t>(packed.size(), 1), 1, 256)
          : 1;
  for (std::size_t i = 0; i < copies; ++i) operand.buffers.push_back(upload(packed));
}

std::unique_ptr<Kernel> OpRun::kernel_for(std::string_view op_name, const Attrs& attrs,
                                          const std::vector<ValueType>& operands,
                                          const std::vector<ValueType>& results,
                                          const DimValues& dims) {
  OpCall call{.op = op_name, .attrs = &attrs, .operands = operands};
  call.layouts.resize(operands.size());
  call.results = results;
  call.max = dims;
  call.mode = spec_.mode;
  call.page_tokens = page_tokens_;
  KernelOrReason found = device_.find_kernel(call, code_);
  if (const auto* reason = std::get_if<std::string>(&found))
    fail(ErrorCode::kDevice, "[op_driver] states need {}: {}", op_name, *reason);
  return std::move(std::get<std::unique_ptr<Kernel>>(found));
}

void OpRun::launch(Kernel& kernel, std::span<std::byte* const> operands,
                   std::span<std::byte* const> results, const DimValues& dims) {
  const auto workspace = device_.allocate(kernel.workspace_bytes(), "workspace");
  kernel.run({.operands = operands,
              .results = results,
              .workspace = workspace->data(),
              .dims = dims,
              .stream = stream_.get()});
  stream_->synchronize();
}

// Normals in every slot; on the device by one kv_append of them all.
void OpRun::fill_state(Operand& operand) {
  const StateSpec& spec = operand.type.state;
  const std::int64_t width = spec.kv_heads * spec.head_dim;
  operand.pages = spec_.sample->state_pages;
  operand.state = make_ref_state(spec, operand.pages, page_tokens_);
  const DType dtype = activation_dtype();
  std::normal_distribution<float> normal;
  for (auto* values : {&operand.state.k, &operand.state.v})
    for (float& x : *values) x = round_to(normal(random_), dtype);
  operand.buffers.push_back(device_.allocate(
      device_.page_bytes(spec, page_tokens_) * static_cast<std::size_t>(operand.pages), "state"));

  DimValues dims;
  dims[Symbol::kTokens] = operand.pages * page_tokens_;
  RefTensor slots = make_ref({dims[Symbol::kTokens]}, DType::kI32);
  std::iota(slots.i.begin(), slots.i.end(), 0);
  RefTensor k = make_ref({dims[Symbol::kTokens], width}), v = k;
  k.f = operand.state.k;
  v.f = operand.state.v;
  call_reference("kv_append", {}, {&k, &v, &slots, nullptr}, {},
                 {nullptr, nullptr, nullptr, &operand.state});
  round_state(operand.state);
  const ValueType rows = tensor_type(dtype, {Symbol::kTokens, width});
  const Attrs none;
  const auto kernel =
      kernel_for("kv_append", none,
                 {rows, rows, tensor_type(DType::kI32, {Symbol::kTokens}), operand.type}, {}, dims);
  const auto k_buffer = upload(encode(k, dtype)), v_buffer = upload(encode(v, dtype)),
             slot_buffer = upload(encode(slots, DType::kI32));
  std::byte* const addresses[] = {k_buffer->data(), v_buffer->data(), slot_buffer->data(),
                                  operand.address()};
  launch(*kernel, addresses, {}, dims);
}

void OpRun::run_reference() {
  std::vector<const RefTensor*> operands;
  std::vector<RefState*> states;
  for (Operand& o : operands_) {
    operands.push_back(o.is_state() ? nullptr : &o.tensor);
    states.push_back(o.is_state() ? &o.state : nullptr);
  }
  std::vector<RefTensor> results;
  for (const Result& r : results_) results.push_back(make_ref(r.wanted.shape, r.type.dtype));
  run_op_reference(op_,
                   {.attrs = attrs_, .operands = operands, .states = states, .results = results},
                   activation_dtype());
  for (std::size_t i = 0; i < results.size(); ++i) results_[i].wanted = std::move(results[i]);
  for (Operand& o : operands_)
    if (o.is_state()) round_state(o.state);
}

bool OpRun::can_share(int operand, int result) const {
  if (static_cast<std::size_t>(operand) >= operands_.size()) return false;
  const Operand& o = operands_[static_cast<std::size_t>(operand)];
  return !o.is_weight() && !o.is_state() && is_float(o.type.dtype) &&
         o.host.size() == results_[static_cast<std::size_t>(result)].bytes;
}

void OpRun::run_on_device(std::vector<std::pair<int, int>> shared) {
  std::vector<std::byte*> operands, results;
  for (Operand& o : operands_) {
    operands.push_back(o.address());
    if (!o.is_weight() && !o.is_state()) device_.copy_in(o.address(), o.host, *stream_);
  }
  std::vector<std::byte> blank;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    Result& r = results_[i];
    blank.assign(r.bytes + kGuardBytes, kGuard);
    std::fill_n(blank.begin(), r.bytes, kUnwritten);
    device_.copy_in(r.buffer->data(), blank, *stream_);
    stream_->synchronize();
    r.address = r.buffer->data();
    for (const auto& [operand, result] : shared)
      if (static_cast<std::size_t>(result) == i)
        r.address = operands[static_cast<std::size_t>(operand)];
    results.push_back(r.address);
  }
  kernel_->run({.operands = operands,
                .results = results,
                .workspace = workspace_->data(),
                .dims = dims_,
                .stream = stream_.get()});
  stream_->synchronize();
}

std::vector<std::vector<std::byte>> OpRun::result_bytes() const {
  std::vector<std::vector<std::byte>> all;
  for (const Result& r : results_) {
    all.emplace_back(r.bytes);
    device_.copy_out(all.back(), r.address, *stream_);
    stream_->synchronize();
  }
  return all;
}

std::vector<float> OpRun::result(std::size_t i) const {
  std::vector<std::byte> bytes(results_[i].bytes);
  device_.copy_out(bytes, results_[i].address, *stream_);
  stream_->synchronize();
  return decode(bytes, results_[i].type.dtype);
}

bool OpRun::guards_intact() const {
  for (const Result& r : results_) {
    std::vector<std::byte> guard(kGuardBytes);
    device_.copy_out(guard, r.buffer->data() + r.bytes, *stream_);
    stream_->synchronize();
    if (std::any_of(guard.begin(), guard.end(), [](std::byte b) { return b != kGuard; }))
      return false;
  }
  for (const Operand& o : operands_) {
    if (o.is_weight() || o.is_state()) continue;
    std::vector<std::byte> now(o.host.size());
    device_.copy_out(now, o.address(), *stream_);
    stream_->synchronize();
    if (now != o.host) return false;
  }
  return true;
}

OpRun::Operand* OpRun::state_operand() {
  for (Operand& o : operands_)
    if (o.is_state()) return &o;
  check(false, "the op has no state");
  return nullptr;
}

DType OpRun::state_dtype() {
  return state_operand()->type.state.dtype;
}

// The operands of an attention whose sequence s is page s.
struct OpRun::StateReading {
  Attrs attrs;
  DimValues dims;
  std::vector<ValueType> types;
  RefTensor q, start, context, table;
};

OpRun::StateReading OpRun::state_reading() {
  const Operand& o = *state_operand();
  const StateSpec& spec = o.type.state;
  StateReading r;
  r.attrs = write_attrs(AttentionAttrs{.heads = spec.kv_heads,
                                       .kv_heads = spec.kv_heads,
                                       .head_dim = spec.head_dim,
                                       .scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim)),
                                       .window = spec.window});
  r.dims[Symbol::kTokens] = o.pages * page_tokens_;
  r.dims[Symbol::kSequences] = o.pages;
  r.dims[Symbol::kPages] = 1;
  Dim starts(Symbol::kSequences);
  starts.offset = 1;
  const std::int64_t width = spec.kv_heads * spec.head_dim;
  r.types = {tensor_type(activation_dtype(), {Symbol::kTokens, width}),
             tensor_type(DType::kI32, {starts}), tensor_type(DType::kI32, {Symbol::kSequences}),
             tensor_type(DType::kI32, {Symbol::kSequences, Symbol::kPages}), o.type};
  r.q = make_ref({r.dims[Symbol::kTokens], width});
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (float& x : r.q.f) x = round_to(normal(random), activation_dtype());
  r.start = make_ref({o.pages + 1}, DType::kI32);
  for (std::size_t s = 0; s < r.start.i.size(); ++s)
    r.start.i[s] = static_cast<std::int32_t>(s) * static_cast<std::int32_t>(page_tokens_);
  r.context = make_ref({o.pages}, DType::kI32);
  std::fill(r.context.i.begin(), r.context.i.end(), static_cast<std::int32_t>(page_tokens_));
  r.table = make_ref({o.pages, 1}, DType::kI32);
  std::iota(r.table.i.begin(), r.table.i.end(), 0);
  return r;
}

std::vector<float> OpRun::read_state_by_reference() {
  const StateReading r = state_reading();
  RefTensor out = make_ref(r.q.shape);
  call_reference("attention", r.attrs, {&r.q, &r.start, &r.context, &r.table, nullptr},
                 std::span(&out, 1), {nullptr, nullptr, nullptr, nullptr, &state_operand()->state});
  return std::move(out.f);
}

std::vector<float> OpRun::read_state_on_device() {
  const StateReading r = state_reading();
  const auto kernel = kernel_for("attention", r.attrs, r.types, {r.types[0]}, r.dims);
  const auto q = upload(encode(r.q, activation_dtype())),
             start = upload(encode(r.start, DType::kI32)),
             context = upload(encode(r.context, DType::kI32)),
             table = upload(encode(r.table, DType::kI32));
  const std::size_t bytes = r.types[0].bytes_at(r.dims);
  const auto out = device_.allocate(bytes, "result");
  std::byte* const operands[] = {q->data(), start->data(), context->data(), table->data(),
                                 state_operand()->address()};
  std::byte* const results[] = {out->data()};
  launch(*kernel, operands, results, r.dims);
  state_rounding_ = attention_rounding(*kernel);
  std::vector<std::byte> host(bytes);
  device_.copy_out(host, out->data(), *stream_);
  stream_->synchronize();
  return decode(host, activation_dtype());
}

double OpRun::median_seconds() {
  using Clock = std::chrono::steady_clock;
  std::size_t copy = 0;
  std::vector<std::byte*> operands(operands_.size()), results;
  for (const Result& r : results_) results.push_back(r.buffer->data());
  const auto seconds_of = [&](int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i, ++copy) {
      for (std::size_t o = 0; o < operands.size(); ++o) operands[o] = operands_[o].address(copy);
      kernel_->run({.operands = operands,
                    .results = results,
                    .workspace = workspace_->data(),
                    .dims = dims_,
                    .stream = stream_.get()});
    }
    stream_->synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const double first = std::max(seconds_of(1), seconds_of(1));
  const int calls = std::clamp(static_cast<int>(0.02 / std::max(first, 1e-7)), 1, 10000);
  std::vector<double> samples;
  for (int i = 0; i < 11; ++i) samples.push_back(seconds_of(calls) / calls);
  std::nth_element(samples.begin(), samples.begin() + 5, samples.end());
  return samples[5];
}

double OpRun::bytes_touched() const {
  double bytes = 0;
  for (const Result& r : results_) bytes += static_cast<double>(r.bytes);
  for (const Operand& o : operands_) {
    if (o.is_state()) {
      const double token = static_cast<double>(device_.page_bytes(o.type.state, page_tokens_)) /
                           static_cast<double>(page_tokens_);
      double tokens = static_cast<double>(dims_[Symbol::kTokens]);
      if (op_.name == "attention")
        tokens = std::accumulate(operands_[2].tensor.i.begin(), operands_[2].tensor.i.end(), 0.0);
      bytes += token * tokens;
    } else if (op_.name == "embed" && o.is_weight()) {
      bytes += static_cast<double>(o.type.format->row_bytes(o.shape[1])) *
               static_cast<double>(dims_[Symbol::kTokens]);
    } else {
      bytes += static_cast<double>(o.is_weight() ? o.layout.bytes : o.host.size());
    }
  }
  return bytes;
}

}  // namespace ingot
