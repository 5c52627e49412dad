#include "runtime/executor.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>
#include <utility>

namespace ingot {

struct Executor::Step {
  std::unique_ptr<Kernel> kernel;
  std::vector<std::byte*> operands;
  std::vector<std::byte*> results;
};

namespace {

constexpr std::size_t kStateAlignment = 256;  // as Device::allocate gives

// Kernels read pages and weights by the device's own layouts: the plan's must be these, to the
// byte.
void check_layouts(const Plan& plan, const Device& device) {
  if (plan.page_tokens != device.page_tokens())
    fail(ErrorCode::kBadInput,
         "[engine.plan] pages of {} tokens, this device has {}; build the engine for it",
         plan.page_tokens, device.page_tokens());
  std::vector<std::vector<WeightUse>> uses(plan.weights.size());
  for (const PlanStep& step : plan.steps)
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      if (step.operands[i].place == Place::kWeight)
        uses[static_cast<std::size_t>(step.operands[i].at)].push_back(
            {step.op, static_cast<int>(i)});
  for (std::size_t w = 0; w < plan.weights.size(); ++w) {
    const PlanWeight& weight = plan.weights[w];
    const WeightLayout wanted =
        device.weight_layout(weight_format(weight.format), weight.shape, uses[w]);
    if (weight.layout != wanted.name || weight.bytes != wanted.bytes)
      fail(ErrorCode::kBadInput,
           "[engine.weights] {} in layout {} of {} bytes, this device wants {} of {}; build the "
           "engine for it",
           weight.name, weight.layout, weight.bytes, wanted.name, wanted.bytes);
  }
}

}  // namespace

PreparedKernels prepare_kernels(const Plan& plan, const Device& device, CodeStore code) {
  check_layouts(plan, device);
  PreparedKernels prepared;
  for (const PlanStep& step : plan.steps) {
    KernelOrReason answer = device.find_kernel(step_call(plan, step), code);
    if (const auto* reason = std::get_if<std::string>(&answer))
      fail(ErrorCode::kBadInput,
           "[engine.{}] this device has no kernel: {}; build the engine for it", step.op, *reason);
    prepared.kernels.push_back(std::move(std::get<std::unique_ptr<Kernel>>(answer)));
    prepared.workspace_bytes = std::max<std::uint64_t>(prepared.workspace_bytes,
                                                       prepared.kernels.back()->workspace_bytes());
  }
  return prepared;
}

Executor::Executor(const Plan& plan, Device& device, std::span<const std::byte> weights,
                   PreparedKernels kernels, const Options& options)
    : plan_(plan), device_(device), kv_pages_(options.kv_pages), host_pages_(options.host_pages) {
  if (weights.size() < plan.weight_bytes())
    fail(ErrorCode::kBadInput,
         "[engine.weights] {} bytes, the plan wants {}; build the engine again", weights.size(),
         plan.weight_bytes());
  vocab_ = plan.logits.type.dims.at(1).offset;
  stream_ = device.make_stream();
  weights_ = device.place_weights(weights, options.progress);
  arena_ = device.allocate(plan.arena_bytes, "activations");
  workspace_ = device.allocate(kernels.workspace_bytes, "workspace");
  place_states();
  bind(std::move(kernels));
  // R, but no more than there are logits of.
  slice_rows_ = static_cast<std::size_t>(
      std::min(plan.max[Symbol::kRows], plan.logits.type.dims[0].at(plan.max)));
  host_logits_.resize(slice_rows_ * static_cast<std::size_t>(vocab_));
}

Executor::~Executor() = default;

// All in one buffer: a device gives memory in large units, and many layers would each round up.
void Executor::place_states() {
  const auto pages = static_cast<std::size_t>(kv_pages_);
  const auto host_pages = static_cast<std::size_t>(host_pages_);
  std::size_t bytes = 0, host_bytes = 0;
  std::vector<std::size_t> offsets;
  for (const PlanState& state : plan_.states) {
    bytes = (bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
    offsets.push_back(bytes);
    states_.push_back({.page_bytes = device_.page_bytes(state.spec, plan_.page_tokens)});
    bytes += states_.back().page_bytes * pages;
    host_bytes += states_.back().page_bytes * host_pages;
  }
  kv_ = device_.allocate(bytes, "the KV cache");
  if (host_pages_ > 0) host_kv_ = device_.allocate_host(host_bytes, "KV cache in host memory");
  std::byte* host = host_kv_ ? host_kv_->data() : nullptr;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    states_[s].pages = kv_->data() + offsets[s];
    states_[s].host_pages = host;
    if (host) host += states_[s].page_bytes * host_pages;
  }
}

void Executor::bind(PreparedKernels kernels) {
  check(kernels.kernels.size() == plan_.steps.size(), "a kernel for every step");
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    Step step{.kernel = std::move(kernels.kernels[i]), .operands = {}, .results = {}};
    for (const PlanOperand& o : plan_.steps[i].operands) step.operands.push_back(address(o));
    for (const PlanOperand& o : plan_.steps[i].results) step.results.push_back(address(o));
    steps_.push_back(std::move(step));
  }
}

std::byte* Executor::address(const PlanOperand& operand) const {
  switch (operand.place) {
    case Place::kArena:
      return arena_->data() + operand.at;
    case Place::kWeight:
      return weights_->data() + plan_.weights[static_cast<std::size_t>(operand.at)].offset;
    case Place::kState:
      return states_[static_cast<std::size_t>(operand.at)].pages;
  }
  return nullptr;
}

void Executor::move_pages(std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies)
    for (const State& state : states_) {
      const std::size_t bytes = state.page_bytes;
      const auto page = [&](std::int32_t at) {
        return state.pages + static_cast<std::size_t>(at) * bytes;
      };
      const auto host = [&](std::int32_t at) {
        return std::span(state.host_pages + static_cast<std::size_t>(at) * bytes, bytes);
      };
      switch (copy.kind) {
        case PageCopy::Kind::kPage:
          device_.copy_within(page(copy.to), page(copy.from), bytes, *stream_);
          break;
        case PageCopy::Kind::kToHost:
          device_.copy_out(host(copy.to), page(copy.from), *stream_);
          break;
        case PageCopy::Kind::kFromHost:
          device_.copy_in(page(copy.to), host(copy.from), *stream_);
          break;
      }
    }
}

// Null for what the graph does not read.
const PlanInput* Executor::find_input(std::string_view name) const {
  const auto input = std::ranges::find(plan_.inputs, name, &PlanInput::name);
  return input == plan_.inputs.end() ? nullptr : &*input;
}

void Executor::upload_input(std::string_view name, std::span<const std::int32_t> values,
                            const DimValues& dims) {
  const PlanInput* input = find_input(name);
  if (!input) return;
  check(values.size_bytes() == input->type.bytes_at(dims), "arrays of one step agree");
  device_.copy_in(arena_->data() + input->offset, std::as_bytes(values), *stream_);
}

// Inputs keep their place, and no step overwrites them: what did not change is there still.
void Executor::upload_table(const Batch& batch, const DimValues& dims) {
  if (batch.whole_table) return upload_input("block_table", batch.block_table, dims);
  const PlanInput* input = find_input("block_table");
  if (!input) return;
  check(batch.block_table.size_bytes() == input->type.bytes_at(dims), "arrays of one step agree");
  for (const TableChange& change : batch.table_changes) {
    const auto first = static_cast<std::size_t>(change.row * batch.pages + change.first);
    const auto values = batch.block_table.subspan(first, static_cast<std::size_t>(change.count));
    device_.copy_in(arena_->data() + input->offset + first * sizeof(std::int32_t),
                    std::as_bytes(values), *stream_);
  }
}

void Executor::upload(const Batch& batch, const DimValues& dims) {
  upload_input("ids", batch.ids, dims);
  upload_input("positions", batch.positions, dims);
  upload_input("slots", batch.slots, dims);
  upload_input("rope_row", batch.rope_row, dims);
  upload_input("query_start", batch.query_start, dims);
  upload_input("context_len", batch.context_len, dims);
  upload_table(batch, dims);
}

void Executor::run_steps(std::size_t begin, std::size_t end, const DimValues& dims) {
  for (std::size_t i = begin; i < end; ++i) {
    Step& step = steps_[i];
    step.kernel->run({.operands = step.operands,
                      .results = step.results,
                      .workspace = workspace_->data(),
                      .dims = dims,
                      .stream = stream_.get()});
  }
}

void Executor::run(const Batch& batch, const LogitSink& sink) {
  DimValues dims;
  dims[Symbol::kTokens] = batch.tokens();
  dims[Symbol::kSequences] = batch.sequences();
  dims[Symbol::kPages] = batch.pages;
  for (const Symbol s : {Symbol::kTokens, Symbol::kSequences, Symbol::kPages})
    if (dims[s] < 1 || dims[s] > plan_.max[s])
      fail(ErrorCode::kRequest,
           "[executor.step] {} tokens of {} sequences with {} pages each; the engine was built for "
           "1 to {}, {} and {}; ask for less at once or build it with larger limits",
           batch.tokens(), batch.sequences(), batch.pages, plan_.max[Symbol::kTokens],
           plan_.max[Symbol::kSequences], plan_.max[Symbol::kPages]);
  move_pages(batch.copies);
  upload(batch, dims);
  const auto head = static_cast<std::size_t>(plan_.head_begin);
  run_steps(0, head, dims);

  for (std::size_t first = 0; first < batch.rows.size(); first += slice_rows_) {
    const std::span rows =
        std::span(batch.rows).subspan(first, std::min(slice_rows_, batch.rows.size() - first));
    dims[Symbol::kRows] = static_cast<std::int64_t>(rows.size());
    upload_input("rows", rows, dims);
    run_steps(head, steps_.size(), dims);
    const std::span<const float> logits = fetch_logits(rows);
    if (sink) sink(static_cast<std::int64_t>(first), dims[Symbol::kRows], logits);
  }
  if (batch.rows.empty()) stream_->synchronize();
}

std::span<const float> Executor::fetch_logits(std::span<const std::int32_t> rows) {
  const auto columns = static_cast<std::size_t>(vocab_);
  const std::span<float> values = std::span(host_logits_).first(rows.size() * columns);
  const std::byte* logits = address(plan_.logits);
  if (plan_.logits.type.dims[0] == Dim(Symbol::kRows)) {
    device_.copy_out(std::as_writable_bytes(values), logits, *stream_);
  } else {  // of every token of the step
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = values.subspan(i * columns, columns);
      device_.copy_out(std::as_writable_bytes(row),
                       logits + static_cast<std::size_t>(rows[i]) * row.size_bytes(), *stream_);
    }
  }
  stream_->synchronize();
  return values;
}

std::uint64_t Executor::arena_bytes() const {
  return arena_->bytes();
}

std::uint64_t Executor::workspace_bytes() const {
  return workspace_->bytes();
}

std::uint64_t Executor::kv_bytes() const {
  return kv_->bytes();
}

}  // namespace ingot
