#pragma once

#include "device/device.h"
#include "ir/graph.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// What passes may ask of the target. Answers are kept, so asking for every layer costs one compile.
class PassContext {
 public:
  PassContext(const Device& device, ComputeMode mode, CodeStore& code)
      : device_(device), mode_(mode), code_(code) {}

  // "" when the device has a kernel for the node as it would stand in `graph`, otherwise its
  // reason.
  const std::string& refusal(const Graph& graph, std::string_view op, const Attrs& attrs,
                             std::span<const ValueType> operands);
  bool supports(const Graph& graph, std::string_view op, const Attrs& attrs,
                std::span<const ValueType> operands) {
    return refusal(graph, op, attrs, operands).empty();
  }
  const Device& device() const { return device_; }
  ComputeMode mode() const { return mode_; }

 private:
  const Device& device_;
  ComputeMode mode_;
  CodeStore& code_;
  std::map<std::string, std::string> answers_;
};

// A rewrite: valid graph in, valid graph out, same meaning. Returns whether it changed anything.
struct Pass {
  std::string_view name;
  std::string_view purpose;
  bool (*run)(Graph& graph, PassContext& context);
};

// The whole compiler, in order.
std::span<const Pass> pipeline();

struct PassReport {
  std::string_view name;
  bool changed = false;
  bool skipped = false;
  double seconds = 0;
  int nodes = 0;  // after the pass
};

// Runs the pipeline but for the passes named in `skip`, verifying the graph after each. Throws
// Error{kUsage} when `skip` names no pass, Error{kBug} naming the pass that left an invalid graph.
std::vector<PassReport> run_pipeline(Graph& graph, PassContext& context,
                                     std::span<const std::string> skip = {});

// One file each; see pipeline.cpp.
bool select_rows(Graph& graph, PassContext& context);
bool fuse_gate_up(Graph& graph, PassContext& context);
bool merge_linears(Graph& graph, PassContext& context);
bool fuse_rope_append(Graph& graph, PassContext& context);
bool fuse_residual(Graph& graph, PassContext& context);
bool fuse_add_rms_norm(Graph& graph, PassContext& context);

// The call that a node makes, as find_kernel wants it.
OpCall op_call(const Graph& graph, const Device& device, ComputeMode mode, const OpDef& def,
               const Attrs& attrs, std::span<const ValueType> operands);

}  // namespace ingot
