#pragma once

#include "ir/op_def.h"

#include <string_view>

// The signatures (act: the device's activation dtype; attribute structs in ops/attrs.h):
//   embed(ids i32[T], table[V,H]) -> act[T,H]                                        EmbedAttrs
//   rms_norm(x[T,H], weight f32[H]) -> x's type                                      RmsNormAttrs
//   add(x, y) -> x's type
//   add_rms_norm(x[T,H], y[T,H], weight f32[H]) -> (x + y, rms_norm of it)           RmsNormAttrs
//   linear(x[T,K], weight[N,K], bias f32[N]?, residual[T,N]?)
//       -> out[T,N] (N/2 with swiglu)                                                LinearAttrs
//   swiglu(gate[T,I], up[T,I]) -> silu(gate) * up
//   split(x[T,N]) -> columns, one result a size                                      SplitAttrs
//   cast(x) -> x in another dtype                                                    CastAttrs
//   gather_rows(x[T,H], rows i32[R]) -> [R,H]
//   rope(x[T,heads*d], positions i32[T], inv_freq f32[F,r/2], rope_row i32[T])
//       -> x's type                                                                  RopeAttrs
//   kv_append(k[T,kv_heads*d], v[T,kv_heads*d], slots i32[T], state)                 writes state
//   rope_kv_append(qkv[T,(heads+2*kv_heads)*d], positions, inv_freq, rope_row, slots, state)
//       -> rotated q[T,heads*d]; rotates k, appends k and v                       RopeKvAppendAttrs
//   attention(q[T,heads*d], query_start i32[S+1], context_len i32[S], block_table i32[S,P], state)
//       -> [T,heads*d], causal: sequence s owns rows query_start[s] .. query_start[s+1] of q, which
//       are the last tokens of its context_len[s] cached ones (kv_append of this step comes first)
//                                                                                    AttentionAttrs
// A slot is page * page_tokens + offset in the page; block_table[s][i] is the page of tokens
// i * page_tokens .. of sequence s. rope_row names the row of inv_freq that a token uses.
namespace ingot {

// All ops, sorted by name: the files of ops/.
OpTable all_ops();
// Throws Error{kBadInput} when there is no such op.
const OpDef& op(std::string_view name);

}  // namespace ingot
