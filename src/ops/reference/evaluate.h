#pragma once

#include "ir/graph.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Runs whole graphs by their ops' references: the oracle of passes, devices and models.
namespace ingot {

// The dequantised numbers of a weight value, [n, k] or [n]. The reference stays valid through the
// call.
using WeightProvider = std::function<const RefTensor&(const Value&)>;

struct Evaluation {
  DimValues dims;                           // sizes of this step
  std::map<std::string, RefTensor> inputs;  // by name; shapes as the graph's at `dims`
  WeightProvider weights;
  std::map<std::string, RefState>* states = nullptr;  // by name; read and written
};

// The outputs, in the order of graph.outputs. Throws Error{kBadInput} for a missing or misshapen
// input, weight or state, and what references throw.
std::vector<RefTensor> evaluate(const Graph& graph, const Evaluation& step);

// A zeroed state of `pages` pages.
RefState make_ref_state(const StateSpec& spec, std::int64_t pages, std::int64_t page_tokens);

// A weight value's numbers from the checkpoint's: follows its recipe. `part` gives a tensor by
// name.
RefTensor assemble_weight(const Value& weight,
                          const std::function<RefTensor(std::string_view)>& part);

}  // namespace ingot
