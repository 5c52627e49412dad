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
    : plan_(plan), device_(device), kv_pages_(options.kv_pages) {
  if (weights.size() < plan.weight_bytes())
    fail(ErrorCode::kBadInput,
         "[engine.weights] {} bytes, the plan wants {}; build the engine again", weights.size(),
         plan.weight_bytes());
  vocab_ = plan.logits.type.dims.at(1).offset;
  stream_ = device.make_stream();
  weights_ = device.place_weights(weights, options.progress);
  arena_ = device.allocate(plan.arena_bytes, "activations");
  workspace_ = device.allocate(kernels.workspace_bytes, "workspace");
  for (const PlanState& state : plan.states)
    states_.push_back(device.allocate(
        device.page_bytes(state.spec, plan.page_tokens) * static_cast<std::size_t>(kv_pages_),
        state.name));
  bind(std::move(kernels));
  host_logits_.resize(static_cast<std::size_t>(plan.max[Symbol::kRows] * vocab_));
}

Executor::~Executor() = default;

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
      return states_[static_cast<std::size_t>(operand.at)]->data();
  }
  return nullptr;
}

void Executor::upload_input(std::string_view name, std::span<const std::int32_t> values) {
  const auto input = std::find_if(plan_.inputs.begin(), plan_.inputs.end(),
                                  [&](const PlanInput& i) { return i.name == name; });
  if (input == plan_.inputs.end()) return;  // a graph that does not read it
  check(values.size_bytes() <= input->type.bytes_at(plan_.max), "a step larger than its plan");
  device_.copy_in(arena_->data() + input->offset, std::as_bytes(values), *stream_);
}

void Executor::upload(const Batch& batch) {
  upload_input("ids", batch.ids);
  upload_input("positions", batch.positions);
  upload_input("slots", batch.slots);
  upload_input("rope_row", batch.rope_row);
  upload_input("query_start", batch.query_start);
  upload_input("context_len", batch.context_len);
  upload_input("block_table", batch.block_table);
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
    check(dims[s] >= 1 && dims[s] <= plan_.max[s], "a step outside its plan");
  upload(batch);
  const auto head = static_cast<std::size_t>(plan_.head_begin);
  run_steps(0, head, dims);

  const auto wanted = static_cast<std::int64_t>(batch.rows.size());
  for (std::int64_t first = 0; first < wanted; first += plan_.max[Symbol::kRows]) {
    const std::int64_t count = std::min(plan_.max[Symbol::kRows], wanted - first);
    dims[Symbol::kRows] = count;
    upload_input("rows",
                 std::span(batch.rows)
                     .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
    run_steps(head, steps_.size(), dims);
    const auto values = std::span(host_logits_).first(static_cast<std::size_t>(count * vocab_));
    device_.copy_out(std::as_writable_bytes(values), address(plan_.logits), *stream_);
    stream_->synchronize();
    if (sink) sink(first, count, values);
  }
  if (wanted == 0) stream_->synchronize();
}

std::uint64_t Executor::arena_bytes() const {
  return arena_->bytes();
}

std::uint64_t Executor::workspace_bytes() const {
  return workspace_->bytes();
}

std::uint64_t Executor::kv_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& s : states_) bytes += s->bytes();
  return bytes;
}

}  // namespace ingot
