#include "tests/runtime/bigram_model.h"

#include "nn/layers.h"

#include <gtest/gtest.h>

#include "tests/ops/reference_device.h"
#include <cmath>
#include <cstring>
#include <limits>

namespace ingot::test {

// The reference device, whose embedding asks the test first.
class BigramModel::FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(BigramModel& model) : model_(model) {}
  DeviceInfo info() const override { return inner_->info(); }
  DType activation_dtype(ComputeMode mode) const override { return inner_->activation_dtype(mode); }
  DType kv_dtype(ComputeMode mode) const override { return inner_->kv_dtype(mode); }
  std::int64_t page_tokens() const override { return inner_->page_tokens(); }
  std::size_t page_bytes(const StateSpec& spec, std::int64_t tokens) const override {
    return inner_->page_bytes(spec, tokens);
  }
  WeightLayout weight_layout(const WeightFormat& format, const Shape& shape,
                             std::span<const WeightUse> uses) const override {
    return inner_->weight_layout(format, shape, uses);
  }
  void pack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                   std::span<const std::byte> rows, std::span<std::byte> packed) const override {
    inner_->pack_weight(layout, format, shape, rows, packed);
  }
  void unpack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                     std::span<const std::byte> packed, std::span<std::byte> rows) const override {
    inner_->unpack_weight(layout, format, shape, packed, rows);
  }
  KernelOrReason find_kernel(const OpCall& call, CodeStore& code) const override {
    KernelOrReason found = inner_->find_kernel(call, code);
    if (call.op != "embed") return found;
    return std::make_unique<AskingKernel>(std::get<std::unique_ptr<Kernel>>(std::move(found)),
                                          model_);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate(bytes, purpose);
  }
  std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate_host(bytes, purpose);
  }
  std::unique_ptr<Buffer> place_weights(std::span<const std::byte> mapped,
                                        const std::function<void(std::size_t)>& done) override {
    return inner_->place_weights(mapped, done);
  }
  std::unique_ptr<Stream> make_stream() override { return inner_->make_stream(); }
  void copy_in(std::byte* device, std::span<const std::byte> host, Stream& stream) override {
    inner_->copy_in(device, host, stream);
  }
  void copy_out(std::span<std::byte> host, const std::byte* device, Stream& stream) override {
    inner_->copy_out(host, device, stream);
  }
  void copy_within(std::byte* to, const std::byte* from, std::size_t bytes,
                   Stream& stream) override {
    inner_->copy_within(to, from, bytes, stream);
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
  std::unique_ptr<Device> inner_ = make_reference_device(kPageTokens);
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
