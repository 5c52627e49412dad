#pragma once

#include "device/device.h"
#include "ir/graph.h"
#include "passes/pass.h"
#include "plan/plan.h"

#include <span>
#include <string>
#include <vector>

namespace ingot {

struct CompileOptions {
  ComputeMode mode = ComputeMode::kNative;
  std::vector<std::string> skip_passes;
};

struct Compiled {
  Graph graph;  // after the passes
  Plan plan;    // weights have offsets and sizes; checksums come when they are written
  CodeStore code;
  std::vector<PassReport> passes;
  std::int64_t arena_lower_bound = 0;
};

// Graph + Device -> Plan. Throws Error{kBadInput} that names every op for which the device has no
// kernel, with its reason.
Compiled compile(Graph graph, const Device& device, const CompileOptions& options = {});

}  // namespace ingot
