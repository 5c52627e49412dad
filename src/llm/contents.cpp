#include "llm/contents.h"

#include "base/json_reason.h"
#include "builder/build_engine.h"
#include "llm/model.h"
#include "llm/resolve.h"
#include "ops/ops.h"
#include "plan/engine_file.h"
#include "plan/kv_reach.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

constexpr std::int64_t kMostSequences = 4096;

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

// Everything but the KV pool.
std::uint64_t fixed_bytes(const Plan& plan, const Device& device) {
  std::uint64_t fixed = 0;
  for (const MemoryRow& row : memory_table(plan, device, 0))
    if (row.what == "total") fixed = row.bytes;
  return fixed;
}

bool fits(const Plan& plan, const EngineInfo& info, const Device& device, std::int64_t sequences,
          std::uint64_t cap) {
  const std::uint64_t pool = memory_needs(plan, device).page *
                             static_cast<std::uint64_t>(sequence_pages(plan, info.max_seq)) *
                             static_cast<std::uint64_t>(sequences);
  return fixed_bytes(plan, device) + pool <= cap;
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

FitReport find_fit(const std::string& model, const ModelContents& contents, const Device& device,
                   const OpenOptions& options, std::uint64_t cap) {
  FitReport fit;
  const std::uint64_t fixed = fixed_bytes(contents.plan, device);
  const std::uint64_t page = std::max<std::uint64_t>(1, memory_needs(contents.plan, device).page);
  if (fixed + page > cap) return fit;
  const auto pages = static_cast<std::int64_t>((cap - fixed) / page);
  fit.longest = longest_sequence(contents.plan, pages, contents.info.max_seq);
  const bool engine = is_engine(model);
  const auto holds = [&](std::int64_t n) {
    if (engine) return fits(contents.plan, contents.info, device, n, cap);
    OpenOptions with = options;
    with.build.max_batch = n;
    const BuiltModel built = compile_model(model, device, with);
    return fits(built.compiled.plan, built.info, device, n, cap);
  };
  // sequences holds, `beyond` does not.
  std::int64_t beyond = engine ? contents.info.max_batch + 1 : kMostSequences + 1;
  while (fit.sequences + 1 < beyond) {
    const std::int64_t half = (fit.sequences + beyond) / 2;
    const std::int64_t grown = fit.sequences == 0 ? 1 : fit.sequences * 2;
    const std::int64_t next = std::min(half, grown);
    (holds(next) ? fit.sequences : beyond) = next;
  }
  return fit;
}

}  // namespace ingot
