#include "cpu/linear.h"

#include "cpu/kernel_maker.h"
#include "cpu/weight_place.h"
#include "ops/attrs.h"

#include <algorithm>

namespace ingot::cpu {

static_assert(kGateUpRows == kGateUpInterleave);

KernelOrReason make_kernel_linear(const OpCall& call, const KernelContext& context) {
  const auto attrs = read_attrs<LinearAttrs>(*call.attrs);
  const ValueType& weight = call.operands[1];
  if (call.operands[0].dtype != DType::kF32) return std::string("x is no f32");
  if (call.results[0].dtype != DType::kF32) return std::string("result is no f32");
  if (call.layouts[1] != kPanelLayout) return std::string("the weight is not in panels");
  const PackedFormat* format = find_packed_format(weight.format->name);
  if (!format) return std::string("the weight's format has no panels");
  const std::size_t bias_at = 2;
  const std::size_t residual_at = attrs.bias ? 3 : 2;
  if (attrs.bias && call.operands[bias_at].format && call.operands[bias_at].format->name != "f32")
    return std::string("the bias is no f32");
  if (attrs.residual && call.operands[residual_at].dtype != DType::kF32)
    return std::string("the residual is no f32");
  const std::int64_t n = weight.dims[0].offset;
  const std::int64_t k = columns_of(weight);
  const std::int64_t columns = columns_of(call.results[0]);
  const Dim rows = call.operands[0].dims[0];
  const Compute compute = call.mode == ComputeMode::kF32 ? Compute::kF32 : Compute::kNative;
  const PackedFormat* formats[] = {format};
  const std::size_t bytes = linear_workspace_bytes(formats, compute, rows.at(call.max), k,
                                                   context.pool.size(), context.tier);
  const auto run = [=, &context](const KernelArgs& args) {
    const PackedWeight packed{.format = format, .n = n, .k = k, .data = args.operands[1]};
    linear(context.pool, {args.workspace, bytes},
           {.weights = {&packed, 1},
            .m = rows.at(args.dims),
            .x = operand<float>(args, 0),
            .x_stride = k,
            .y = result<float>(args, 0),
            .y_stride = columns,
            .bias = attrs.bias ? operand<float>(args, bias_at) : nullptr,
            .residual = attrs.residual ? operand<float>(args, residual_at) : nullptr,
            .residual_stride = columns,
            .epilogue = attrs.swiglu ? Epilogue::kSwiglu : Epilogue::kNone,
            .compute = compute},
           context.tier);
  };
  return function_kernel(call, context, run, bytes);
}
}  // namespace ingot::cpu
