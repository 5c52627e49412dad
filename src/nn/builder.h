#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What a model author writes: layer functions over a graph under construction. Weights are named by
// slot
// ("layers.0.attn.q"); whether one is quantised is a property of its type, so layer code never
// branches on it.
namespace ingot::nn {

// The type of every slot that the checkpoint fills, biases included.
using SlotTypes = std::map<std::string, ValueType, std::less<>>;

struct BuilderOptions {
  DType activation = DType::kF32;
  DType kv = DType::kBF16;
  DimValues max;
};

class Builder {
 public:
  Builder(std::string model_name, const BuilderOptions& options, const SlotTypes& slots);

  // Inputs of every decoder, see ops/ops.h.
  ValueId ids() const { return ids_; }
  ValueId positions() const { return positions_; }
  ValueId slots() const { return slots_; }
  ValueId rope_row() const { return rope_row_; }
  ValueId query_start() const { return query_start_; }
  ValueId context_len() const { return context_len_; }
  ValueId block_table() const { return block_table_; }

  bool has_slot(std::string_view slot) const { return slot_types_.find(slot) != slot_types_.end(); }
  // The weight of a slot, added to the graph at its first use. Throws Error{kBadInput} naming a
  // slot that is not filled.
  ValueId weight(std::string_view slot);
  ValueId state(std::string name, const StateSpec& spec);
  std::vector<ValueId> call(std::string_view op, Attrs attrs, std::vector<ValueId> operands,
                            std::vector<std::string> names = {});

  DType activation() const { return options_.activation; }
  DType kv() const { return options_.kv; }
  Graph& graph() { return graph_; }
  // The finished graph with `logits` as its output; verified.
  Graph finish(ValueId logits) &&;

 private:
  BuilderOptions options_;
  const SlotTypes& slot_types_;
  Graph graph_;
  std::map<std::string, ValueId, std::less<>> weights_;
  ValueId ids_, positions_, slots_, rope_row_, query_start_, context_len_, block_table_;
};

}  // namespace ingot::nn
