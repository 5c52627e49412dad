#include "nn/builder.h"

#include "base/error.h"
#include "ops/ops.h"

#include <utility>

namespace ingot::nn {

namespace {

ValueType ints(std::vector<Dim> dims) {
  return {.dtype = DType::kI32, .dims = std::move(dims)};
}

Dim sequences_plus_one() {
  Dim d(Symbol::kSequences);
  d.offset = 1;
  return d;
}

}  // namespace

Builder::Builder(std::string model_name, const BuilderOptions& options, const SlotTypes& slots)
    : options_(options), slot_types_(slots) {
  graph_.name = std::move(model_name);
  graph_.max = options.max;
  ids_ = graph_.add_input("ids", ints({Symbol::kTokens}));
  positions_ = graph_.add_input("positions", ints({Symbol::kTokens}));
  slots_ = graph_.add_input("slots", ints({Symbol::kTokens}));
  rope_row_ = graph_.add_input("rope_row", ints({Symbol::kTokens}));
  query_start_ = graph_.add_input("query_start", ints({sequences_plus_one()}));
  context_len_ = graph_.add_input("context_len", ints({Symbol::kSequences}));
  block_table_ = graph_.add_input("block_table", ints({Symbol::kSequences, Symbol::kPages}));
}

ValueId Builder::weight(std::string_view slot) {
  if (const auto it = weights_.find(slot); it != weights_.end()) return it->second;
  const auto type = slot_types_.find(slot);
  if (type == slot_types_.end())
    fail(ErrorCode::kBadInput, "[{}.{}] the checkpoint does not hold this weight", graph_.name,
         slot);
  const ValueId id = graph_.add_weight(std::string(slot), type->second);
  weights_.emplace(slot, id);
  return id;
}

ValueId Builder::state(std::string name, const StateSpec& spec) {
  return graph_.add_state(std::move(name), spec);
}

std::vector<ValueId> Builder::call(std::string_view op_name, Attrs attrs,
                                   std::vector<ValueId> operands, std::vector<std::string> names) {
  return graph_.add_node(op(op_name), std::move(attrs), std::move(operands), std::move(names));
}

Graph Builder::finish(ValueId logits) && {
  graph_.outputs = {logits};
  verify(graph_);
  return std::move(graph_);
}

}  // namespace ingot::nn
