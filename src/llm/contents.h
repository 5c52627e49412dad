#pragma once

#include "device/device.h"
#include "llm/open_options.h"
#include "plan/engine_info.h"
#include "plan/plan.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct PassSummary {
  std::string name;
  std::string purpose;
  bool changed = false;
  bool skipped = false;
  double seconds = 0;  // 0 for an engine: measured when it was built
  std::int64_t nodes = 0;
};

// What is in a model: of an engine what it holds, of a checkpoint what it compiles to.
struct ModelContents {
  EngineInfo info;
  Plan plan;
  std::string graph;  // text form, after the passes
  std::vector<PassSummary> passes;
};
// Reads no weights. Throws Error.
ModelContents read_contents(const std::string& model, const Device& device,
                            const OpenOptions& options);

// The compiler's passes in order, as names and purposes.
std::vector<PassSummary> list_passes();
// A graph's text form as Graphviz.
std::string graph_dot(std::string_view graph_text);

}  // namespace ingot
