#include "tests/cuda/kernel_check.h"

#include "base/error.h"
#include "cuda/device.h"
#include "ops/ops.h"
#include "quant/weight_format.h"

#include "tests/ops/op_run.h"
#include <algorithm>
#include <memory>
#include <utility>

namespace ingot::cuda {
namespace {

// One case as a device is asked for it in `mode`: bf16 stands for the device's activation type.
struct CallOfCase {
  Attrs attrs;
  OpCall call;
};

CallOfCase call_of(const Device& device, const OpDef& op, const OpCase& sample, ComputeMode mode,
                   const WeightFormat* format) {
  CallOfCase result{.attrs = sample.attrs, .call = {}};
  const DType activation = device.activation_dtype(mode);
  for (const char* name : {"out", "to"})
    if (const AttrValue* value = sample.attrs.find(name))
      if (std::get<std::string>(*value) == "bf16")
        result.attrs.set(name, std::string(dtype_name(activation)));
  OpCall& call = result.call;
  call.op = op.name;
  call.max = sample.dims;
  call.mode = mode;
  call.page_tokens = sample.page_tokens > 0 ? sample.page_tokens : device.page_tokens();
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    ValueType type = sample.operands[i].type;
    std::string layout;
    if (type.state != StateSpec{}) {
      if (type.state.dtype == DType::kBF16) type.state.dtype = device.kv_dtype(mode);
      type.dtype = type.state.dtype;
    } else if (type.format) {
      if (format && sample.operands[i].fill == Fill::kWeight) type.format = format;
      const WeightUse use{.op = op.name, .operand = static_cast<int>(i)};
      layout = device.weight_layout(*type.format, type.at(sample.dims), std::span(&use, 1)).name;
    } else if (type.dtype == DType::kBF16) {
      type.dtype = activation;
    }
    call.operands.push_back(std::move(type));
    call.layouts.push_back(std::move(layout));
  }
  call.results = op.infer(result.attrs, call.operands);
  return result;
}

std::vector<const WeightFormat*> formats_of(const OpCase& sample, bool every) {
  if (!takes_matrix(sample)) return {nullptr};
  std::vector<const WeightFormat*> formats;
  for (const WeightFormat* format : weight_formats()) {
    const bool few = format->name == "f32" || format->name == "bf16" || format->name == "q4_1";
    if ((every || few) && fits_format(sample, *format)) formats.push_back(format);
  }
  return formats;
}

void count(ResourceUse& most, const ResourceUse& use) {
  most.registers = std::max(most.registers, use.registers);
  most.shared_bytes = std::max(most.shared_bytes, use.shared_bytes);
  most.stack_bytes = std::max(most.stack_bytes, use.stack_bytes);
  most.spill_bytes = std::max(most.spill_bytes, use.spill_bytes);
}

KernelReport check_op(const OpDef& op, TargetReport& target) {
  KernelReport report{.op = std::string(op.name)};
  std::string where;
  const auto device = make_cuda_target(
      target.arch,
      {.use_cache = false, .on_compiled = [&](const CompiledKernel& kernel) {
         ++report.variants;
         count(report.most, kernel.use);
         if (kernel.use.stack_bytes + kernel.use.spill_bytes > 0)
           target.failures.push_back(fmt::format(
               "{} for {}: {} bytes of local memory, {} bytes spilled, {} registers", where,
               target.arch, kernel.use.stack_bytes, kernel.use.spill_bytes, kernel.use.registers));
         if (kernel.use.registers == 0)
           target.failures.push_back(where + ": no assembler's report");
       }});
  CodeStore code;  // equal code is compiled once
  bool every = true;
  for (const OpCase& sample : op.cases()) {
    // The first case that fits every format's blocks shows all of them.
    const bool all_formats =
        every && takes_matrix(sample) && fits_format(sample, weight_format("q4_k"));
    if (all_formats) every = false;
    for (const WeightFormat* format : formats_of(sample, all_formats))
      for (const ComputeMode mode : {ComputeMode::kNative, ComputeMode::kF32}) {
        where = fmt::format("{}/{}{}{}", op.name, sample.name, format ? "/" : "",
                            format ? format->name : "");
        try {
          const CallOfCase c = call_of(*device, op, sample, mode, format);
          OpCall call = c.call;
          call.attrs = &c.attrs;
          const KernelOrReason found = device->find_kernel(call, code);
          if (const auto* reason = std::get_if<std::string>(&found))
            target.failures.push_back(fmt::format("{} for {}: {}", where, target.arch, *reason));
        } catch (const Error& e) {
          target.failures.push_back(fmt::format("{}: {}", where, e.message()));
        }
      }
  }
  if (report.variants == 0)
    target.failures.push_back(fmt::format("{} has no kernel for {}", op.name, target.arch));
  return report;
}

}  // namespace

TargetReport check_kernels(std::string_view arch, std::string_view only_op) {
  TargetReport target{.arch = std::string(arch), .kernels = {}, .failures = {}};
  for (const OpDef* op : all_ops())
    if (only_op.empty() || op->name == only_op) target.kernels.push_back(check_op(*op, target));
  return target;
}

}  // namespace ingot::cuda
