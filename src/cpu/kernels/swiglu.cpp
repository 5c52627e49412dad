#include "cpu/kernel_maker.h"

namespace ingot::cpu {

KernelOrReason make_kernel_swiglu(const OpCall& call, const KernelContext& context) {
  if (std::string reason = reason_unless_f32(call); !reason.empty()) return reason;
  const Dim rows = call.operands[0].dims[0];
  const std::int64_t n = columns_of(call.operands[0]);
  return function_kernel(call, context, [=, &context](const KernelArgs& args) {
    const auto* gate = operand<float>(args, 0);
    const auto* up = operand<float>(args, 1);
    auto* out = result<float>(args, 0);
    for_rows(context.pool, rows.at(args.dims), 4 * n, [&](std::int64_t row, int) {
      context.rows.swiglu(gate + row * n, up + row * n, n, out + row * n);
    });
  });
}
}  // namespace ingot::cpu
