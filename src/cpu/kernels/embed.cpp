#include "base/check.h"
#include "cpu/convert.h"
#include "cpu/kernel_maker.h"
#include "cpu/packed_row.h"
#include "cpu/weight_place.h"

namespace ingot::cpu {

KernelOrReason make_kernel_embed(const OpCall& call, const KernelContext& context) {
  if (call.results[0].dtype != DType::kF32) return std::string("result is no f32");
  const ValueType& table = call.operands[1];
  const WeightFormat* format = table.format ? table.format : find_weight_format("f32");
  const std::int64_t vocabulary = table.dims[0].offset;
  const std::int64_t n = columns_of(table);
  const Dim rows = call.operands[0].dims[0];
  const bool packed = call.layouts[1] == kPanelLayout;
  const PackedFormat* panels = packed ? find_packed_format(format->name) : nullptr;
  if (packed && !panels) return std::string("the table's format has no panels");
  const std::size_t row_bytes = format->row_bytes(n);
  const std::size_t thread_bytes = (row_bytes + 63) / 64 * 64;
  const auto run = [=, &context](const KernelArgs& args) {
    const auto* ids = operand<std::int32_t>(args, 0);
    auto* out = result<float>(args, 0);
    const PackedWeight weight{.format = panels, .n = vocabulary, .k = n, .data = args.operands[1]};
    for_rows(context.pool, rows.at(args.dims), 2 * n, [&](std::int64_t row, int thread) {
      check(ids[row] >= 0 && ids[row] < vocabulary, "a token id is in the vocabulary");
      const auto id = static_cast<std::size_t>(ids[row]);
      const std::byte* source = args.operands[1] + id * row_bytes;
      if (panels) {
        std::byte* gathered = args.workspace + static_cast<std::size_t>(thread) * thread_bytes;
        unpack_row(weight, ids[row], gathered);
        source = gathered;
      }
      format->dequantize_row(source, n, out + row * n);
    });
  };
  const std::size_t workspace =
      packed ? thread_bytes * static_cast<std::size_t>(context.pool.size()) : 0;
  return function_kernel(call, context, run, workspace);
}
}  // namespace ingot::cpu
