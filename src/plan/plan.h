#pragma once

#include "base/json.h"
#include "device/kernel.h"
#include "ir/graph.h"
#include "ir/type.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct EngineInfo;

// Where an operand of a step is.
enum class Place : std::uint8_t {
  kArena,   // offset in the activation arena (inputs too)
  kWeight,  // index into Plan::weights
  kState,   // index into Plan::states
};

struct PlanOperand {
  Place place = Place::kArena;
  std::int64_t at = 0;  // byte offset or index
  ValueType type;
};

struct PlanStep {
  std::string op;
  Attrs attrs;
  std::vector<PlanOperand> operands;
  std::vector<PlanOperand> results;
  std::string kernel;  // name of the kernel that the compiler chose
};

// A weight as the device wants it. Blobs lie in execution order.
struct PlanWeight {
  std::string name;
  std::string format;  // quant/ stem
  Shape shape;
  std::string layout;
  std::uint64_t offset = 0;  // in the weight section, a multiple of kWeightAlignment
  std::uint64_t bytes = 0;   // in `layout`
  std::uint64_t checksum = 0;
  WeightRecipe recipe;  // names in the checkpoint's canonical slots
};
inline constexpr std::uint64_t kWeightAlignment = 4096;

struct PlanInput {
  std::string name;
  ValueType type;
  std::int64_t offset = 0;  // in the arena
};

struct PlanState {
  std::string name;
  StateSpec spec;
};

// The compiled step: ordered kernel calls, every buffer at a fixed offset, every byte known.
// Immutable.
struct Plan {
  std::string target;
  ComputeMode mode = ComputeMode::kNative;
  DimValues max;
  std::int64_t page_tokens = 0;
  std::vector<PlanInput> inputs;
  std::vector<PlanWeight> weights;
  std::vector<PlanState> states;
  std::vector<PlanStep> steps;
  // Steps from here on form the head: they depend on the wanted rows, and run once for every slice
  // of R rows.
  std::int64_t head_begin = 0;
  PlanOperand logits;                 // f32[R, vocab]; f32[T, vocab] when no pass selected rows
  std::uint64_t arena_bytes = 0;      // activations and inputs, at the maxima
  std::uint64_t workspace_bytes = 0;  // the largest of any kernel
  std::uint64_t weight_bytes() const;
};

// The call that a step makes, for Device::find_kernel. Valid while the step lives.
OpCall step_call(const Plan& plan, const PlanStep& step);

Json to_json(const Plan& plan);
// Throws Error{kBadInput} that names the field. What comes back has passed check_plan.
Plan plan_from_json(const Json& json, OpTable ops);

// Throws Error{kBadInput} unless kernels that do what their ops say stay inside their buffers:
// offsets and indices inside their tables, operands what a step before them left or a table holds,
// results of the types that the ops infer, index operands the step's own inputs, which no step
// overwrites.
void check_plan(const Plan& plan, OpTable ops);

// The same for what the runtime takes from an engine's description: vocabulary, sequences of a
// step, longest sequence, rows of the rope table.
void check_agreement(const EngineInfo& info, const Plan& plan, OpTable ops);

}  // namespace ingot
