#include "cpu/attention.h"

#include "cpu/kernel_maker.h"
#include "ops/attrs.h"

#include <fmt/format.h>

namespace ingot::cpu {

namespace {

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const OpCall& call, const AttentionSpec& spec, const KernelContext& context)
      : name_("attention." + std::string(tier_name(context.tier))),
        sequences_(call.operands[2].dims[0]),
        table_width_(call.operands[3].dims[1]),
        attention_(spec, context.pool, context.tier) {}

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return attention_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    attention_.run({.q = operand<float>(args, 0),
                    .out = result<float>(args, 0),
                    .query_start = operand<std::int32_t>(args, 1),
                    .context_len = operand<std::int32_t>(args, 2),
                    .block_table = operand<std::int32_t>(args, 3),
                    .table_width = table_width_.at(args.dims),
                    .sequences = sequences_.at(args.dims),
                    .pages = args.operands[4],
                    .workspace = args.workspace});
  }

 private:
  std::string name_;
  Dim sequences_;
  Dim table_width_;
  Attention attention_;
};

}  // namespace

KernelOrReason make_kernel_attention(const OpCall& call, const KernelContext& context) {
  if (std::string reason = reason_unless_f32(call); !reason.empty()) return reason;
  const auto attrs = read_attrs<AttentionAttrs>(*call.attrs);
  const std::int64_t group = attrs.heads / attrs.kv_heads;
  if (group > max_item_rows(attrs.head_dim))
    return fmt::format("{} query heads share a kv head, at most {} may", group,
                       max_item_rows(attrs.head_dim));
  const AttentionSpec spec{.kv = kv_layout(call.operands[4].state, call.page_tokens),
                           .heads = attrs.heads,
                           .scale = attrs.scale,
                           .softcap = attrs.softcap,
                           .window = attrs.window,
                           .sinks = attrs.sink_tokens,
                           .max_tokens = call.operands[0].dims[0].at(call.max),
                           .max_sequences = call.operands[2].dims[0].at(call.max),
                           .max_context = call.operands[3].dims[1].at(call.max) * call.page_tokens,
                           .exact = call.mode == ComputeMode::kF32};
  return std::make_unique<AttentionKernel>(call, spec, context);
}
}  // namespace ingot::cpu
