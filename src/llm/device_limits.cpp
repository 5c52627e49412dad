#include "llm/device_limits.h"

#include "base/threads.h"
#include "cpu/limits.h"

#include <map>
#include <string_view>
#include <vector>

namespace ingot {

namespace {

// Past every cache, small enough for a small machine.
constexpr std::size_t kReadWords = (std::size_t{256} << 20) / sizeof(std::uint64_t);

class CpuLimits final : public DeviceLimits {
 public:
  explicit CpuLimits(int threads)
      : pool_(threads > 0 ? threads : usable_cpus()), memory_(kReadWords, 1) {}
  double read_bytes_per_s() override { return cpu::read_peak(pool_, memory_); }
  double operations_per_s(const StepWork& work) override {
    const cpu::Tier tier = cpu::best_tier();
    if (work.arithmetic == Arithmetic::kInt8) return cpu::int8_peak(pool_, tier);
    const double bf16 =
        work.arithmetic == Arithmetic::kBF16 ? cpu::bf16_peak(pool_, tier) : 0;  // 0: no such tier
    return bf16 > 0 ? bf16 : cpu::fma_peak(pool_, tier);
  }

 private:
  ThreadPool pool_;
  std::vector<std::uint64_t> memory_;
};

bool is_float_format(std::string_view format) {
  return format == "bf16" || format == "f16" || format == "f32";
}

}  // namespace

StepWork step_work(const Plan& plan) {
  StepWork work;
  std::map<std::int64_t, bool> counted;  // weights, read once a step
  double integer = 0, bf16 = 0, all = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.op == "embed") continue;  // a few rows
    for (const PlanOperand& operand : step.operands) {
      if (operand.place != Place::kWeight) continue;
      const PlanWeight& weight = plan.weights[static_cast<std::size_t>(operand.at)];
      if (!counted[operand.at]) work.weight_bytes += static_cast<double>(weight.bytes);
      counted[operand.at] = true;
      if (weight.shape.rank() != 2) continue;
      const double operations = 2.0 * static_cast<double>(weight.shape.elements());
      const bool head = static_cast<std::int64_t>(i) >= plan.head_begin;
      (head ? work.head_operations_a_row : work.operations_a_token) += operations;
      all += operations;
      if (!is_float_format(weight.format)) integer += operations;
      if (weight.format == "bf16") bf16 += operations;
    }
  }
  if (plan.mode == ComputeMode::kNative)
    work.arithmetic = integer > all / 2 ? Arithmetic::kInt8
                      : bf16 > all / 2  ? Arithmetic::kBF16
                                        : Arithmetic::kF32;
  return work;
}

std::unique_ptr<DeviceLimits> make_device_limits(const Device& device, int threads) {
  if (device.info().target != "cpu") return nullptr;
  return std::make_unique<CpuLimits>(threads);
}

}  // namespace ingot
