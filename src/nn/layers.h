#pragma once

#include "nn/builder.h"

#include <string>
#include <string_view>

// Layer functions. x is [tokens, hidden] unless said; every result has the builder's activation
// dtype. Errors of shapes come from the ops, named "[op.x]", with the slot in the graph's value
// names.
namespace ingot::nn {

// Rows of `slot` [vocab, hidden] for the step's token ids.
ValueId embed(Builder& b, std::string_view slot);

// x / rms(x) * weight, statistics in f32 (Zhang and Sennrich, 2019).
ValueId rms_norm(Builder& b, ValueId x, std::string_view slot, double eps);

// x W^T, plus the bias in "<slot>.bias" where the checkpoint fills it.
ValueId linear(Builder& b, ValueId x, std::string_view slot);

ValueId add(Builder& b, ValueId x, ValueId y);

// silu(gate) * up (Shazeer, 2020).
ValueId swiglu(Builder& b, ValueId gate, ValueId up);

struct AttentionSpec {
  std::string layer;  // names the layer's state: "kv.0"
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;       // tokens seen, the current one included; 0 is all
  std::int64_t sink_tokens = 0;  // first tokens of a sequence, seen in spite of the window
  std::int64_t rotary_dim = 0;   // 0: no rotation
  bool rope_interleaved = false;
  double rope_scale = 1.0;
  double softcap = 0;
};

// Rotates q and k by position with the table in slot "rope.inv_freq", appends k and v to the
// layer's cache and attends to it. q [tokens, heads * head_dim], k and v [tokens, kv_heads *
// head_dim]; result like q.
ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, const AttentionSpec& spec);

// Logits in f32 for every token: [tokens, vocab]. A pass keeps the rows that are wanted.
ValueId lm_head(Builder& b, ValueId x, std::string_view slot);

}  // namespace ingot::nn
