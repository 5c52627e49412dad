#include "llm/contents.h"

#include "base/error.h"
#include "base/json_reason.h"
#include "builder/build_engine.h"
#include "llm/resolve.h"
#include "ops/ops.h"
#include "plan/engine_file.h"

#include <nlohmann/json.hpp>

namespace ingot {

namespace {

ModelContents contents_of_engine(const std::string& path) {
  const EngineFile file{std::filesystem::path(path)};
  const Json& manifest = file.manifest();
  const auto part = [&](const char* key) -> const Json& {
    if (!manifest.contains(key))
      fail(ErrorCode::kBadInput, "[engine.manifest] {}: no {}; build the engine again", path, key);
    return manifest.at(key);
  };
  ModelContents c;
  c.info = engine_info_from_json(part("info"));
  c.plan = plan_from_json(part("plan"), all_ops());
  check_agreement(c.info, c.plan, all_ops());
  try {
    c.graph = part("graph").get<std::string>();
    for (const Json& p : part("passes")) {
      const Json& nodes = p.at("nodes");
      if (!nodes.is_number_unsigned() || nodes.get<std::uint64_t>() > INT32_MAX)
        fail(ErrorCode::kBadInput,
             "[engine.manifest] {}: a pass of {} nodes; build the engine again", path,
             dump_json(nodes));
      c.passes.push_back({.name = p.value("name", ""),
                          .purpose = {},
                          .changed = p.value("changed", false),
                          .skipped = p.value("skipped", false),
                          .nodes = nodes.get<int>()});
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kBadInput, "[engine.manifest] {}: {}; build the engine again", path,
         json_reason(e));
  }
  return c;
}

}  // namespace

ModelContents read_contents(const std::string& model, const Device& device,
                            const OpenOptions& options) {
  ModelContents c;
  if (is_engine(model)) {
    c = contents_of_engine(model);
  } else {
    BuiltModel built = compile_model(model, device, options);
    c.info = std::move(built.info);
    c.plan = std::move(built.compiled.plan);
    c.graph = print(built.compiled.graph);
    for (const PassReport& p : built.compiled.passes)
      c.passes.push_back({.name = std::string(p.name),
                          .purpose = {},
                          .changed = p.changed,
                          .skipped = p.skipped,
                          .seconds = p.seconds,
                          .nodes = p.nodes});
  }
  for (const PassSummary& known : list_passes())
    for (PassSummary& p : c.passes)
      if (p.name == known.name) p.purpose = known.purpose;
  return c;
}

std::vector<PassSummary> list_passes() {
  std::vector<PassSummary> list;
  for (const Pass& p : pipeline())
    list.push_back({.name = std::string(p.name), .purpose = std::string(p.purpose)});
  return list;
}

std::string graph_dot(std::string_view graph_text) {
  return print_dot(parse_graph(graph_text, all_ops()));
}

}  // namespace ingot
