#include "cpu/kernel_maker.h"

#include <cstring>

namespace ingot::cpu {

// Any dtype: rows are bytes.
KernelOrReason make_kernel_gather_rows(const OpCall& call, const KernelContext& context) {
  if (call.operands[0].format) return std::string("rows of a weight are embed's");
  const Dim rows = call.operands[1].dims[0];
  const auto bytes =
      columns_of(call.operands[0]) * static_cast<std::int64_t>(dtype_bytes(call.operands[0].dtype));
  return function_kernel(call, context, [=, &context](const KernelArgs& args) {
    const auto* x = operand<std::byte>(args, 0);
    const auto* wanted = operand<std::int32_t>(args, 1);
    auto* out = result<std::byte>(args, 0);
    for_rows(context.pool, rows.at(args.dims), bytes / 4, [&](std::int64_t row, int) {
      std::memcpy(out + row * bytes, x + wanted[row] * bytes, static_cast<std::size_t>(bytes));
    });
  });
}
}  // namespace ingot::cpu
