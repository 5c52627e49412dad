#include "ops/reference/evaluate.h"

#include "base/error.h"
#include "ops/reference/compose.h"

#include <algorithm>

namespace ingot {

namespace {

bool holds(const RefTensor& tensor, bool floats) {
  return static_cast<std::int64_t>(floats ? tensor.f.size() : tensor.i.size()) ==
         tensor.shape.elements();
}

class Evaluator {
 public:
  Evaluator(const Graph& graph, const Evaluation& step)
      : graph_(graph),
        step_(step),
        made_(graph.values.size()),
        tensors_(graph.values.size(), nullptr),
        states_(graph.values.size(), nullptr),
        uses_(graph.values.size(), 0) {}

  std::vector<RefTensor> run() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) bind(i);
    for (const Node& node : graph_.nodes)
      for (const ValueId id : node.operands) ++uses_[static_cast<std::size_t>(id)];
    for (const ValueId id : graph_.outputs) ++uses_[static_cast<std::size_t>(id)];
    for (const Node& node : graph_.nodes) call(node);
    std::vector<RefTensor> outputs;
    for (const ValueId id : graph_.outputs)
      outputs.push_back(*tensors_[static_cast<std::size_t>(id)]);
    return outputs;
  }

 private:
  void want(const RefTensor& tensor, const Value& value) const {
    const Shape wanted = value.type.at(step_.dims);
    if (tensor.shape != wanted || !holds(tensor, is_float(value.type.dtype)))
      fail(ErrorCode::kBadInput, "[ops.evaluate] '{}' is {}, wanted {} of {}", value.name,
           to_string(tensor.shape), to_string(wanted), dtype_name(value.type.dtype));
  }

  void bind(std::size_t i) {
    const Value& value = graph_.values[i];
    if (value.kind == ValueKind::kInput) {
      const auto it = step_.inputs.find(value.name);
      if (it == step_.inputs.end())
        fail(ErrorCode::kBadInput, "[ops.evaluate] input '{}' is missing", value.name);
      tensors_[i] = &it->second;
      want(it->second, value);
    } else if (value.kind == ValueKind::kWeight) {
      tensors_[i] = &step_.weights(value);
      want(*tensors_[i], value);
    } else if (value.kind == ValueKind::kState) {
      if (step_.states)
        if (const auto it = step_.states->find(value.name); it != step_.states->end())
          states_[i] = &it->second;
      if (!states_[i])
        fail(ErrorCode::kBadInput, "[ops.evaluate] state '{}' is missing", value.name);
    }
  }

  void call(const Node& node) {
    std::vector<const RefTensor*> operands;
    std::vector<RefState*> states;
    for (const ValueId id : node.operands) {
      operands.push_back(tensors_[static_cast<std::size_t>(id)]);
      states.push_back(states_[static_cast<std::size_t>(id)]);
    }
    std::vector<RefTensor> results;
    for (const ValueId id : node.results) {
      const ValueType& type = graph_.type(id);
      results.push_back(make_ref(type.at(step_.dims), type.dtype));
    }
    node.op->reference(
        {.attrs = node.attrs, .operands = operands, .states = states, .results = results});
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto id = static_cast<std::size_t>(node.results[i]);
      made_[id] = std::move(results[i]);
      tensors_[id] = &made_[id];
    }
    for (const ValueId id : node.operands)
      if (--uses_[static_cast<std::size_t>(id)] == 0) made_[static_cast<std::size_t>(id)] = {};
  }

  const Graph& graph_;
  const Evaluation& step_;
  std::vector<RefTensor> made_;
  std::vector<const RefTensor*> tensors_;
  std::vector<RefState*> states_;
  std::vector<int> uses_;  // still to come
};

}  // namespace

std::vector<RefTensor> evaluate(const Graph& graph, const Evaluation& step) {
  return Evaluator(graph, step).run();
}

RefState make_ref_state(const StateSpec& spec, std::int64_t pages, std::int64_t page_tokens) {
  RefState state;
  state.page_tokens = page_tokens;
  state.head_dim = spec.head_dim;
  state.dtype = spec.dtype;
  const auto count = static_cast<std::size_t>(pages * page_tokens * spec.kv_heads * spec.head_dim);
  state.k.assign(count, 0.0f);
  state.v.assign(count, 0.0f);
  return state;
}

RefTensor assemble_weight(const Value& weight,
                          const std::function<RefTensor(std::string_view)>& part) {
  const WeightRecipe& recipe = weight.recipe;
  if (recipe.parts.empty()) return part(weight.name);
  std::vector<RefTensor> parts;
  for (const std::string& name : recipe.parts) parts.push_back(part(name));
  const std::int64_t k = parts[0].shape.rank() == 2 ? parts[0].shape[1] : 1;
  const std::int64_t rows = parts[0].shape[0];
  // Without interleave each part is one turn.
  const std::int64_t turn = recipe.interleave > 0 ? recipe.interleave : 0;
  for (const RefTensor& p : parts)
    if (turn > 0 && (p.shape != parts[0].shape || rows % turn != 0))
      fail(ErrorCode::kBadInput, "[ops.evaluate] '{}' interleaves {} rows of {} and {}",
           weight.name, turn, to_string(parts[0].shape), to_string(p.shape));
  RefTensor out = make_ref(weight.type.at({}));
  out.f.clear();
  if (turn == 0) {
    for (const RefTensor& p : parts) out.f.insert(out.f.end(), p.f.begin(), p.f.end());
  } else {
    for (std::int64_t row = 0; row < rows; row += turn)
      for (const RefTensor& p : parts)
        out.f.insert(out.f.end(), p.f.begin() + row * k, p.f.begin() + (row + turn) * k);
  }
  if (!holds(out, true))
    fail(ErrorCode::kBadInput, "[ops.evaluate] the parts of '{}' are not {}", weight.name,
         to_string(out.shape));
  return out;
}

}  // namespace ingot
