#include "cpu/kernel_maker.h"
#include "ops/attrs.h"

#include <cstring>
#include <vector>

namespace ingot::cpu {

// Any dtype: columns are bytes.
KernelOrReason make_kernel_split(const OpCall& call, const KernelContext& context) {
  const Dim rows = call.operands[0].dims[0];
  const auto value = static_cast<std::int64_t>(dtype_bytes(call.operands[0].dtype));
  const std::int64_t bytes = columns_of(call.operands[0]) * value;
  std::vector<std::int64_t> parts = read_attrs<SplitAttrs>(*call.attrs).sizes;
  for (std::int64_t& part : parts) part *= value;
  return function_kernel(call, context, [=, &context](const KernelArgs& args) {
    const auto* x = operand<std::byte>(args, 0);
    for_rows(context.pool, rows.at(args.dims), bytes / 4, [&](std::int64_t row, int) {
      const std::byte* from = x + row * bytes;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        std::memcpy(result<std::byte>(args, i) + row * parts[i], from,
                    static_cast<std::size_t>(parts[i]));
        from += parts[i];
      }
    });
  });
}
}  // namespace ingot::cpu
