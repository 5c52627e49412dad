#include "tests/runtime/bigram_model.h"

#include "nn/layers.h"

#include <gtest/gtest.h>

#include "tests/ops/forwarding_device.h"
#include "tests/ops/reference_device.h"
#include <cmath>
#include <cstring>
#include <limits>

namespace ingot::test {

// The reference device, whose embedding asks the test first.
class BigramModel::FaultyDevice final : public ForwardingDevice {
 public:
  explicit FaultyDevice(BigramModel& model)
      : ForwardingDevice(make_reference_device(kPageTokens)), model_(model) {}
  KernelOrReason find_kernel(const OpCall& call, CodeStore& code) const override {
    KernelOrReason found = ForwardingDevice::find_kernel(call, code);
    if (call.op != "embed") return found;
    return std::make_unique<AskingKernel>(std::get<std::unique_ptr<Kernel>>(std::move(found)),
                                          model_);
  }

 private:
  class AskingKernel final : public Kernel {
   public:
    AskingKernel(std::unique_ptr<Kernel> inner, BigramModel& model)
        : inner_(std::move(inner)), model_(model) {}
    std::string_view name() const override { return inner_->name(); }
    void run(const KernelArgs& args) override {
      if (model_.before_step) model_.before_step();
      inner_->run(args);
    }

   private:
    std::unique_ptr<Kernel> inner_;
    BigramModel& model_;
  };

  BigramModel& model_;
};

BigramModel::BigramModel(Script script, const Tokenizer* tokenizer)
    : device_(std::make_unique<FaultyDevice>(*this)) {
  const ValueType matrix{
      .dtype = DType::kF32, .dims = {kVocab, kVocab}, .format = &weight_format("f32"), .state = {}};
  const nn::SlotTypes slots = {{"embed", matrix}, {"head", matrix}};
  nn::BuilderOptions build{.activation = DType::kF32, .kv = DType::kF32, .max = {}};
  build.max[Symbol::kTokens] = 8;
  build.max[Symbol::kSequences] = script.max_batch;
  build.max[Symbol::kRows] = 2;
  build.max[Symbol::kPages] = (script.max_seq + kPageTokens - 1) / kPageTokens;
  nn::Builder b("bigram", build, slots);
  const ValueId x = nn::embed(b, "embed");
  const ValueId logits = nn::lm_head(b, x, "head");
  compiled_ = compile(std::move(b).finish(logits), *device_, {.mode = ComputeMode::kF32});

  const auto n = static_cast<std::size_t>(kVocab);
  std::vector<float> embed(n * n), head(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    embed[i * n + i] =
        script.poisoned.contains(static_cast<std::int32_t>(i)) ? std::nanf("") : 1.0f;
    const auto next = script.next.find(static_cast<std::int32_t>(i));
    const std::size_t to = next == script.next.end() ? i : static_cast<std::size_t>(next->second);
    head[to * n + i] = 10;
  }
  weights_ = device_->allocate(compiled_.plan.weight_bytes(), "weights");
  for (const PlanWeight& w : compiled_.plan.weights)
    std::memcpy(weights_->data() + w.offset, w.name == "embed" ? embed.data() : head.data(),
                w.bytes);
  info_.vocab = kVocab;
  info_.max_seq = script.max_seq;
  info_.max_batch = script.max_batch;
  info_.end_ids = std::move(script.end_ids);
  executor_ = std::make_unique<Executor>(
      compiled_.plan, *device_, std::span<const std::byte>(weights_->data(), weights_->bytes()),
      prepare_kernels(compiled_.plan, *device_, {}),
      Executor::Options{
          .kv_pages = script.kv_pages, .host_pages = script.host_pages, .progress = {}});
  loop_ = std::make_unique<EngineLoop>(*executor_, info_, tokenizer, script.loop);
}

BigramModel::~BigramModel() = default;

std::map<RequestId, OutputEvent> BigramModel::finish_all() {
  std::map<RequestId, OutputEvent> all;
  for (int steps = 0; loop_->has_work(); ++steps) {
    if (steps > 10000) {
      ADD_FAILURE() << "the loop goes on for ever";
      break;
    }
    for (OutputEvent& e : loop_->step()) {
      auto [it, is_new] = all.try_emplace(e.id);
      OutputEvent& whole = it->second;
      EXPECT_TRUE(is_new || whole.finish == FinishReason::kRunning) << "an event after the last";
      e.text = whole.text + e.text;
      e.tokens.insert(e.tokens.begin(), whole.tokens.begin(), whole.tokens.end());
      whole = std::move(e);
    }
    loop_->scheduler().check_integrity();
  }
  return all;
}

}  // namespace ingot::test
