#include "cpu/kernel_maker.h"
#include "cpu/rotation.h"

namespace ingot::cpu {

KernelOrReason make_kernel_rope(const OpCall& call, const KernelContext& context) {
  if (std::string reason = reason_unless_f32(call); !reason.empty()) return reason;
  const Rotation rotation(read_attrs<RopeAttrs>(*call.attrs));
  const Dim rows = call.operands[0].dims[0];
  const std::int64_t n = columns_of(call.operands[0]);
  const auto run = [=, &context](const KernelArgs& args) {
    const auto* x = operand<float>(args, 0);
    const RotationInputs inputs{operand<std::int32_t>(args, 1), operand<float>(args, 2),
                                operand<std::int32_t>(args, 3)};
    auto* out = result<float>(args, 0);
    for_rows(context.pool, rows.at(args.dims), 2 * n, [&](std::int64_t row, int thread) {
      const TokenRotation token = rotation.at(context.rows, inputs, row, args.workspace, thread);
      token.apply(x + row * n, n / rotation.dim(), out + row * n);
    });
  };
  return function_kernel(call, context, run, rotation.workspace_bytes(context.pool.size()));
}
}  // namespace ingot::cpu
