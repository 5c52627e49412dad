#include "cpu/convert.h"
#include "cpu/kernel_maker.h"

namespace ingot::cpu {

KernelOrReason make_kernel_cast(const OpCall& call, const KernelContext& context) {
  const DType from = call.operands[0].dtype;
  const DType to = call.results[0].dtype;
  if (!is_float(from) || !is_float(to) || to == DType::kE5M2 || call.operands[0].format)
    return std::string("casts are between floating activations");
  const Dim rows = call.operands[0].dims[0];
  const std::int64_t n = columns_of(call.operands[0]);
  const bool plain = from == DType::kF32 || to == DType::kF32;
  const std::size_t row_bytes = (static_cast<std::size_t>(n) * sizeof(float) + 63) / 64 * 64;
  const std::size_t workspace =
      plain ? 0 : row_bytes * static_cast<std::size_t>(context.pool.size());
  const auto run = [=, &context](const KernelArgs& args) {
    const auto* x = operand<std::byte>(args, 0);
    auto* out = result<std::byte>(args, 0);
    const auto x_bytes = n * static_cast<std::int64_t>(dtype_bytes(from));
    const auto out_bytes = n * static_cast<std::int64_t>(dtype_bytes(to));
    for_rows(context.pool, rows.at(args.dims), n, [&](std::int64_t row, int thread) {
      const std::byte* source = x + row * x_bytes;
      std::byte* target = out + row * out_bytes;
      if (to == DType::kF32) {
        to_f32(context.rows, from, source, n, reinterpret_cast<float*>(target));
      } else if (from == DType::kF32) {
        from_f32(context.rows, reinterpret_cast<const float*>(source), n, to, target);
      } else {  // through f32, exactly
        auto* wide =
            reinterpret_cast<float*>(args.workspace + static_cast<std::size_t>(thread) * row_bytes);
        to_f32(context.rows, from, source, n, wide);
        from_f32(context.rows, wide, n, to, target);
      }
    });
  };
  return function_kernel(call, context, run, workspace);
}
}  // namespace ingot::cpu
