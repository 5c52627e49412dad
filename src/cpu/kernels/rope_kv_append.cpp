#include "cpu/kernel_maker.h"
#include "cpu/kv_writer.h"
#include "cpu/rotation.h"

namespace ingot::cpu {

KernelOrReason make_kernel_rope_kv_append(const OpCall& call, const KernelContext& context) {
  if (std::string reason = reason_unless_f32(call); !reason.empty()) return reason;
  const auto attrs = read_attrs<RopeKvAppendAttrs>(*call.attrs);
  const KvWriter writer(kv_layout(call.operands[5].state, call.page_tokens));
  const Rotation rotation(attrs.rope, attrs.kv_heads * attrs.rope.head_dim);
  const Dim rows = call.operands[0].dims[0];
  const std::int64_t n = columns_of(call.operands[0]);
  const std::int64_t q_columns = attrs.heads * attrs.rope.head_dim;
  const std::int64_t kv_columns = attrs.kv_heads * attrs.rope.head_dim;
  const auto run = [=, &context](const KernelArgs& args) {
    const auto* qkv = operand<float>(args, 0);
    const RotationInputs inputs{operand<std::int32_t>(args, 1), operand<float>(args, 2),
                                operand<std::int32_t>(args, 3)};
    const auto* slots = operand<std::int32_t>(args, 4);
    std::byte* pages = args.operands[5];
    auto* out = result<float>(args, 0);
    for_rows(context.pool, rows.at(args.dims), 2 * n, [&](std::int64_t row, int thread) {
      const float* q = qkv + row * n;
      const float* k = q + q_columns;
      const TokenRotation token = rotation.at(context.rows, inputs, row, args.workspace, thread);
      token.apply(q, attrs.heads, out + row * q_columns);
      token.apply(k, attrs.kv_heads, token.spare);
      writer.append(context.rows, pages, slots[row], token.spare, k + kv_columns);
    });
  };
  return function_kernel(call, context, run, rotation.workspace_bytes(context.pool.size()));
}
}  // namespace ingot::cpu
