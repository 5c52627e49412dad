#pragma once

#include "device/device.h"
#include "plan/engine_file.h"
#include "plan/plan.h"
#include "runtime/batch.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ingot {

// A kernel for every step of a plan, before any memory is taken. What they need as workspace
// depends on the device at hand (its threads, its units), so it is asked here and not read from the
// plan.
struct PreparedKernels {
  std::vector<std::unique_ptr<Kernel>> kernels;  // by step
  std::uint64_t workspace_bytes = 0;
};
// Throws Error{kBadInput} naming the op for which the device has no kernel, or the weight that lies
// otherwise than the device wants.
PreparedKernels prepare_kernels(const Plan& plan, const Device& device, CodeStore code);

// Runs a plan on a device: owns the arena, the workspace and the KV pages, all taken once at
// construction.
class Executor {
 public:
  struct Options {
    std::int64_t kv_pages = 0;                    // pages of every layer
    std::int64_t host_pages = 0;                  // in host memory, for what does not fit
    std::function<void(std::uint64_t)> progress;  // bytes of weights placed
  };
  // `weights` is the engine's weight section, and outlives the executor. Throws Error{kDoesNotFit}.
  Executor(const Plan& plan, Device& device, std::span<const std::byte> weights,
           PreparedKernels kernels, const Options& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Gets logits [count, vocab] in f32 of batch.rows[first ..]: memory of the executor, valid during
  // the call.
  using LogitSink =
      std::function<void(std::int64_t first, std::int64_t count, std::span<const float> logits)>;
  // One step. The head runs in slices of the plan's R rows. Throws Error{kRequest} for a step that
  // is empty or larger than the plan, Error{kDevice}.
  void run(const Batch& batch, const LogitSink& sink);

  const Plan& plan() const { return plan_; }
  Device& device() const { return device_; }
  std::int64_t kv_pages() const { return kv_pages_; }
  std::int64_t host_pages() const { return host_pages_; }
  std::int64_t vocab() const { return vocab_; }
  // What was taken from the device, by purpose; weights placed in a mapping count too.
  std::uint64_t arena_bytes() const;
  std::uint64_t workspace_bytes() const;
  std::uint64_t kv_bytes() const;
  std::uint64_t host_bytes() const { return host_kv_ ? host_kv_->bytes() : 0; }

 private:
  struct Step;
  void place_states();
  void bind(PreparedKernels kernels);
  std::byte* address(const PlanOperand& operand) const;
  void move_pages(std::span<const PageCopy> copies);
  void upload(const Batch& batch, const DimValues& dims);
  const PlanInput* find_input(std::string_view name) const;
  void upload_input(std::string_view name, std::span<const std::int32_t> values,
                    const DimValues& dims);
  void upload_table(const Batch& batch, const DimValues& dims);
  void run_steps(std::size_t begin, std::size_t end, const DimValues& dims);
  std::span<const float> fetch_logits(std::span<const std::int32_t> rows);

  const Plan& plan_;
  Device& device_;
  std::int64_t kv_pages_;
  std::int64_t host_pages_;
  std::int64_t vocab_ = 0;
  std::size_t slice_rows_ = 0;  // rows of logits that come out at once
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> weights_;
  std::unique_ptr<Buffer> arena_;
  std::unique_ptr<Buffer> workspace_;
  std::unique_ptr<Buffer> kv_;
  // By PlanState: its pages, in kv_ and in host_kv_.
  struct State {
    std::byte* pages = nullptr;
    std::byte* host_pages = nullptr;
    std::size_t page_bytes = 0;
  };
  std::unique_ptr<Buffer> host_kv_;
  std::vector<State> states_;
  std::vector<Step> steps_;
  std::vector<float> host_logits_;  // staging where the device's memory is not the host's
};

}  // namespace ingot
