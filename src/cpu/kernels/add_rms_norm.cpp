#include "cpu/kernel_maker.h"
#include "ops/attrs.h"

namespace ingot::cpu {

KernelOrReason make_kernel_add_rms_norm(const OpCall& call, const KernelContext& context) {
  if (std::string reason = reason_unless_f32(call); !reason.empty()) return reason;
  const auto eps = static_cast<float>(read_attrs<RmsNormAttrs>(*call.attrs).eps);
  const Dim rows = call.operands[0].dims[0];
  const std::int64_t n = columns_of(call.operands[0]);
  return function_kernel(call, context, [=, &context](const KernelArgs& args) {
    const auto* x = operand<float>(args, 0);
    const auto* y = operand<float>(args, 1);
    const auto* weight = operand<float>(args, 2);
    auto* sum = result<float>(args, 0);
    auto* out = result<float>(args, 1);
    for_rows(context.pool, rows.at(args.dims), 2 * n, [&](std::int64_t row, int) {
      context.rows.add(x + row * n, y + row * n, n, sum + row * n);
      context.rows.rms_norm(sum + row * n, weight, eps, n, out + row * n);
    });
  });
}
}  // namespace ingot::cpu
