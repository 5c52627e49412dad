#include "nn/layers.h"

#include "ops/attrs.h"

#include <cmath>

namespace ingot::nn {

namespace {

ValueId linear_to(Builder& b, ValueId x, std::string_view slot, DType out) {
  const std::string bias = std::string(slot) + ".bias";
  LinearAttrs attrs{.bias = b.has_slot(bias), .out = std::string(dtype_name(out))};
  std::vector<ValueId> operands = {x, b.weight(slot)};
  if (attrs.bias) operands.push_back(b.weight(bias));
  return b.call("linear", write_attrs(attrs), operands, {std::string(slot) + ".out"})[0];
}

}  // namespace

ValueId embed(Builder& b, std::string_view slot) {
  const EmbedAttrs attrs{.out = std::string(dtype_name(b.activation()))};
  return b.call("embed", write_attrs(attrs), {b.ids(), b.weight(slot)}, {"embedding"})[0];
}

ValueId rms_norm(Builder& b, ValueId x, std::string_view slot, double eps) {
  return b.call("rms_norm", write_attrs(RmsNormAttrs{.eps = eps}), {x, b.weight(slot)},
                {std::string(slot) + ".out"})[0];
}

ValueId linear(Builder& b, ValueId x, std::string_view slot) {
  return linear_to(b, x, slot, b.activation());
}

ValueId add(Builder& b, ValueId x, ValueId y) {
  return b.call("add", {}, {x, y})[0];
}

ValueId swiglu(Builder& b, ValueId gate, ValueId up) {
  return b.call("swiglu", {}, {gate, up})[0];
}

ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, const AttentionSpec& spec) {
  if (spec.rotary_dim > 0) {
    const RopeAttrs rope{.head_dim = spec.head_dim,
                         .rotary_dim = spec.rotary_dim,
                         .interleaved = spec.rope_interleaved,
                         .scale = spec.rope_scale};
    const ValueId table = b.weight("rope.inv_freq");
    q = b.call("rope", write_attrs(rope), {q, b.positions(), table, b.rope_row()})[0];
    k = b.call("rope", write_attrs(rope), {k, b.positions(), table, b.rope_row()})[0];
  }
  const std::int64_t sink_tokens = spec.window > 0 ? spec.sink_tokens : 0;
  const ValueId cache = b.state(spec.layer, {.kv_heads = spec.kv_heads,
                                             .head_dim = spec.head_dim,
                                             .dtype = b.kv(),
                                             .window = spec.window,
                                             .sink_tokens = sink_tokens});
  b.call("kv_append", {}, {k, v, b.slots(), cache});
  const AttentionAttrs attrs{.heads = spec.heads,
                             .kv_heads = spec.kv_heads,
                             .head_dim = spec.head_dim,
                             .scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim)),
                             .window = spec.window,
                             .softcap = spec.softcap,
                             .sink_tokens = sink_tokens};
  return b.call("attention", write_attrs(attrs),
                {q, b.query_start(), b.context_len(), b.block_table(), cache})[0];
}

ValueId lm_head(Builder& b, ValueId x, std::string_view slot) {
  return linear_to(b, x, slot, DType::kF32);
}

}  // namespace ingot::nn
