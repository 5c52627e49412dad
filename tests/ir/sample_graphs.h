#pragma once

#include "ir/graph.h"
#include "ops/attrs.h"
#include "ops/ops.h"

#include <string>
#include <utility>
#include <vector>

namespace ingot::sample_graphs {

inline ValueType rows(std::int64_t columns, DType dtype = DType::kF32) {
  ValueType type;
  type.dtype = dtype;
  type.dims = {Symbol::kTokens, columns};
  return type;
}

inline ValueType ints(std::vector<Dim> dims) {
  ValueType type;
  type.dtype = DType::kI32;
  type.dims = std::move(dims);
  return type;
}

inline ValueType matrix(std::string_view format, std::int64_t n, std::int64_t k) {
  ValueType type;
  type.format = &weight_format(format);
  type.dims = {n, k};
  return type;
}

inline ValueType vector(std::int64_t n) {
  ValueType type;
  type.format = &weight_format("f32");
  type.dims = {n};
  return type;
}

inline Graph empty(std::string name) {
  Graph g;
  g.name = std::move(name);
  g.max[Symbol::kTokens] = 512;
  g.max[Symbol::kSequences] = 8;
  g.max[Symbol::kRows] = 8;
  g.max[Symbol::kPages] = 64;
  return g;
}

// One layer as a model author writes it, before any fusion. Hidden 32, 2 heads of 16, 1 KV head.
inline Graph one_layer() {
  Graph g = empty("one layer");
  Dim starts(Symbol::kSequences);
  starts.offset = 1;
  const ValueId ids = g.add_input("ids", ints({Symbol::kTokens}));
  const ValueId positions = g.add_input("positions", ints({Symbol::kTokens}));
  const ValueId slots = g.add_input("slots", ints({Symbol::kTokens}));
  const ValueId rope_row = g.add_input("rope_row", ints({Symbol::kTokens}));
  const ValueId query_start = g.add_input("query_start", ints({starts}));
  const ValueId context = g.add_input("context_len", ints({Symbol::kSequences}));
  const ValueId table = g.add_input("block_table", ints({Symbol::kSequences, Symbol::kPages}));
  const ValueId wanted = g.add_input("rows", ints({Symbol::kRows}));
  const auto weight = [&](std::string name, ValueType type) {
    return g.add_weight(std::move(name), std::move(type));
  };
  const auto node = [&](std::string_view name, Attrs attrs, std::vector<ValueId> operands) {
    const auto results = g.add_node(op(name), std::move(attrs), std::move(operands));
    return results.empty() ? kNone : results[0];
  };
  const Attrs linear = write_attrs(LinearAttrs{});
  const Attrs norm = write_attrs(RmsNormAttrs{});
  const Attrs rope = write_attrs(RopeAttrs{.head_dim = 16, .rotary_dim = 16});
  const ValueId tok = weight("tok", matrix("f32", 50, 32));
  const ValueId freq = weight("inv_freq", matrix("f32", 1, 8));
  const ValueId state = g.add_state("kv.0", {.kv_heads = 1, .head_dim = 16, .dtype = DType::kF32});

  const ValueId h = node("embed", write_attrs(EmbedAttrs{}), {ids, tok});
  const ValueId n = node("rms_norm", norm, {h, weight("attn_norm", vector(32))});
  const ValueId q = node("linear", linear, {n, weight("q", matrix("f32", 32, 32))});
  const ValueId k = node("linear", linear, {n, weight("k", matrix("f32", 16, 32))});
  const ValueId v = node("linear", linear, {n, weight("v", matrix("f32", 16, 32))});
  const ValueId qr = node("rope", rope, {q, positions, freq, rope_row});
  const ValueId kr = node("rope", rope, {k, positions, freq, rope_row});
  node("kv_append", {}, {kr, v, slots, state});
  const ValueId a =
      node("attention",
           write_attrs(AttentionAttrs{.heads = 2, .kv_heads = 1, .head_dim = 16, .scale = 0.25}),
           {qr, query_start, context, table, state});
  const ValueId o = node("linear", linear, {a, weight("o", matrix("f32", 32, 32))});
  const ValueId h2 = node("add", {}, {h, o});
  const ValueId n2 = node("rms_norm", norm, {h2, weight("mlp_norm", vector(32))});
  const ValueId gate = node("linear", linear, {n2, weight("gate", matrix("f32", 48, 32))});
  const ValueId up = node("linear", linear, {n2, weight("up", matrix("f32", 48, 32))});
  const ValueId act = node("swiglu", {}, {gate, up});
  const ValueId down = node("linear", linear, {act, weight("down", matrix("f32", 32, 48))});
  const ValueId h3 = node("add", {}, {h2, down});
  const ValueId last = node("rms_norm", norm, {h3, weight("norm", vector(32))});
  const ValueId picked = node("gather_rows", {}, {last, wanted});
  g.outputs = {node("linear", linear, {picked, tok})};
  return g;
}

}  // namespace ingot::sample_graphs
