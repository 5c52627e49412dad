#include "cpu/kernel_maker.h"
#include "cpu/kv_writer.h"

namespace ingot::cpu {

KernelOrReason make_kernel_kv_append(const OpCall& call, const KernelContext& context) {
  if (std::string reason = reason_unless_f32(call); !reason.empty()) return reason;
  const KvWriter writer(kv_layout(call.operands[3].state, call.page_tokens));
  const Dim rows = call.operands[0].dims[0];
  const std::int64_t n = columns_of(call.operands[0]);
  return function_kernel(call, context, [=, &context](const KernelArgs& args) {
    const auto* k = operand<float>(args, 0);
    const auto* v = operand<float>(args, 1);
    const auto* slots = operand<std::int32_t>(args, 2);
    std::byte* pages = args.operands[3];
    for_rows(context.pool, rows.at(args.dims), 2 * n, [&](std::int64_t row, int) {
      writer.append(context.rows, pages, slots[row], k + row * n, v + row * n);
    });
  });
}
}  // namespace ingot::cpu
