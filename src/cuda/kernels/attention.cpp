#include "cuda/kernels/attention.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

#include <fmt/core.h>

namespace ingot::cuda {

BindingOrReason bind_attention(const OpCall& call) {
  const auto attrs = read_attrs<AttentionAttrs>(*call.attrs);
  Binder binder("attention", call);
  binder.require(attrs.head_dim % 8 == 0 && attrs.head_dim <= 256,
                 fmt::format("head_dim {}, wanted a multiple of 8 up to 256", attrs.head_dim));
  binder.number("HEADS", attrs.heads);
  binder.number("KV_HEADS", attrs.kv_heads);
  binder.number("HEAD_DIM", attrs.head_dim);
  binder.number("PAGE_TOKENS", call.page_tokens);
  binder.number("WINDOW", attrs.window);
  binder.number("SINKS", attrs.window > 0 ? attrs.sink_tokens : 0);
  binder.number("SOFTCAP", attrs.softcap > 0);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.type("OUT_TYPE", call.results[0].dtype);
  binder.state("KV_TYPE", call.operands[4].state.dtype);
  const Dim rows = call.operands[0].dims[0];
  const Dim sequences = call.operands[2].dims[0];
  const Dim table_width = call.operands[3].dims[1];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    check_aligned(input(args, 4));
    launch(attention_launch(rows.at(args.dims), attrs.heads),
           AttentionParams{.q = input(args, 0),
                           .query_start = input<int>(args, 1),
                           .context_len = input<int>(args, 2),
                           .block_table = input<int>(args, 3),
                           .pages = input(args, 4),
                           .out = output(args, 0),
                           .sequences = static_cast<int>(sequences.at(args.dims)),
                           .table_width = static_cast<int>(table_width.at(args.dims)),
                           .scale = static_cast<float>(attrs.scale),
                           .softcap = static_cast<float>(attrs.softcap)});
  });
}

}  // namespace ingot::cuda
