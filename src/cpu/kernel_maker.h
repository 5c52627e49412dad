#pragma once

#include "base/threads.h"
#include "cpu/simd/rows.h"
#include "cpu/simd/tier.h"
#include "device/kernel.h"

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ingot::cpu {

// What a kernel may use of its device, which outlives it.
struct KernelContext {
  ThreadPool& pool;
  Tier tier;
  const RowKernels& rows;
};

// kernels/<stem>.cpp defines `make_kernel_<stem>`: the fast kernel of op <stem>, or the reason why
// this call has none.
using KernelMaker = KernelOrReason (*)(const OpCall& call, const KernelContext& context);
// Null for an op without a file.
KernelMaker find_kernel_maker(std::string_view op);

// The row kernels of a tier.
const RowKernels& row_kernels(Tier tier);

// A kernel out of a function of KernelArgs.
template <std::invocable<const KernelArgs&> F>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(std::string name, std::size_t workspace, F f)
      : name_(std::move(name)), workspace_(workspace), f_(std::move(f)) {}
  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_; }
  void run(const KernelArgs& args) override { f_(args); }

 private:
  std::string name_;
  std::size_t workspace_;
  F f_;
};

// Named "<op>.<tier>".
template <typename F>
KernelOrReason function_kernel(const OpCall& call, const KernelContext& context, F f,
                               std::size_t workspace = 0) {
  return std::make_unique<FunctionKernel<F>>(
      std::string(call.op) + "." + std::string(tier_name(context.tier)), workspace, std::move(f));
}

// Calls f(row, thread) for every row, on as many threads as the work is worth: waking them costs
// about as much as `kWorthAThread` values.
inline constexpr std::int64_t kWorthAThread = 8192;

template <typename F>
void for_rows(ThreadPool& pool, std::int64_t rows, std::int64_t values_per_row, F&& f) {
  if (pool.size() == 1 || rows * values_per_row < 2 * kWorthAThread || rows < 2) {
    for (std::int64_t row = 0; row < rows; ++row) f(row, 0);
    return;
  }
  pool.run([&](int thread) {
    const auto [begin, end] = static_split(rows, pool.size(), thread);
    for (std::int64_t row = begin; row < end; ++row) f(row, thread);
  });
}

// The first operand or result that is not f32, as a reason; empty when all are. i32 operands and
// states are left out.
std::string reason_unless_f32(const OpCall& call);

// Addresses with their types.
template <typename T>
const T* operand(const KernelArgs& args, std::size_t i) {
  return reinterpret_cast<const T*>(args.operands[i]);
}
template <typename T>
T* result(const KernelArgs& args, std::size_t i) {
  return reinterpret_cast<T*>(args.results[i]);
}

// Columns of a matrix value: they never depend on the step.
std::int64_t columns_of(const ValueType& type);

}  // namespace ingot::cpu
