#include "cuda/kernels/attention.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

#include <fmt/core.h>

#include <algorithm>

namespace ingot::cuda {

namespace {

// Splits become blocks of their own while their rows alone are fewer blocks than a large GPU holds.
constexpr std::int64_t kFewBlocks = 1024;
constexpr std::size_t kMaxPartialBytes = std::size_t{256} << 20;

// What decides how a step's launches are cut; any cut gives the same bits.
struct Cut {
  AttentionAttrs attrs;
  std::int64_t page_tokens;

  std::int64_t slices() const { return attention_slices(attrs.heads, attrs.kv_heads); }
  std::int64_t splits(std::int64_t table_width) const {
    return blocks_for(table_width * page_tokens, kSplitTokens);
  }
  std::size_t partial_bytes(std::int64_t rows, std::int64_t table_width) const {
    return static_cast<std::size_t>(
        attention_partial_bytes(rows, attrs.heads, attrs.head_dim, splits(table_width)));
  }
  // 1 where a block sums all splits of its row.
  std::int64_t splits_apart(std::int64_t rows, std::int64_t table_width) const {
    const bool apart =
        rows * slices() <= kFewBlocks && partial_bytes(rows, table_width) <= kMaxPartialBytes;
    return apart ? splits(table_width) : 1;
  }
  std::size_t most_partial_bytes(std::int64_t rows, std::int64_t table_width) const {
    return std::min(kMaxPartialBytes,
                    partial_bytes(std::min(rows, kFewBlocks / slices()), table_width));
  }
};

bool on_tensor_cores(const OpCall& call, const AttentionAttrs& attrs) {
  const DType state = call.operands[4].state.dtype;
  return call.operands[0].dtype == DType::kBF16 && call.results[0].dtype == DType::kBF16 &&
         (state == DType::kBF16 || state_scale_bytes(state) > 0) && attrs.head_dim % 32 == 0 &&
         call.page_tokens % 16 == 0 && (attrs.window == 0 || attrs.sink_tokens == 0);
}

void launch_splits(const Cut& cut, AttentionParams params, std::int64_t rows,
                   const Launcher& launch) {
  const std::int64_t splits = cut.splits_apart(rows, params.table_width);
  params.splits = static_cast<int>(splits);
  launch(attention_launch(rows * splits, cut.slices()), params);
  if (splits == 1) return;
  params.merges = 1;
  launch(attention_launch(rows, cut.attrs.heads), params);
}

}  // namespace

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
  const bool tensor_cores = on_tensor_cores(call, attrs);
  binder.number("TENSOR_CORES", tensor_cores);
  const Dim rows = call.operands[0].dims[0];
  const Dim sequences = call.operands[2].dims[0];
  const Dim table_width = call.operands[3].dims[1];
  const Cut cut{attrs, call.page_tokens};
  if (tensor_cores)
    binder.workspace(cut.most_partial_bytes(rows.at(call.max), table_width.at(call.max)));
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    check_aligned(input(args, 4));
    const AttentionParams params{.q = input(args, 0),
                                 .query_start = input<int>(args, 1),
                                 .context_len = input<int>(args, 2),
                                 .block_table = input<int>(args, 3),
                                 .pages = input(args, 4),
                                 .out = output(args, 0),
                                 .sequences = static_cast<int>(sequences.at(args.dims)),
                                 .table_width = static_cast<int>(table_width.at(args.dims)),
                                 .scale = static_cast<float>(attrs.scale),
                                 .softcap = static_cast<float>(attrs.softcap),
                                 .partial = reinterpret_cast<float*>(args.workspace),
                                 .splits = 1,
                                 .merges = 0};
    if (tensor_cores)
      launch_splits(cut, params, rows.at(args.dims), launch);
    else
      launch(attention_launch(rows.at(args.dims), attrs.heads), params);
  });
}

}  // namespace ingot::cuda
