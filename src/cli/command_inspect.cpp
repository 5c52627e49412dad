#include "base/error.h"
#include "base/units.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/contents.h"
#include "llm/devices.h"
#include "llm/resolve.h"
#include "plan/engine_file.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct InspectOptions {
  ModelOptions model;
  bool graph = false, dot = false, plan = false, weights = false, verify = false, passes = false;
  bool json = false;
};

OrderedJson blobs_json(const EngineFile& file) {
  OrderedJson blobs = OrderedJson::array();
  for (const EngineBlob& b : file.blobs())
    blobs.push_back({{"name", b.name},
                     {"offset", b.offset},
                     {"bytes", b.bytes},
                     {"checksum", fmt::format("{:016x}", b.checksum)}});
  return blobs;
}

OrderedJson weights_json(const Plan& plan) {
  OrderedJson weights = OrderedJson::array();
  for (const PlanWeight& w : plan.weights)
    weights.push_back(
        {{"name", w.name},
         {"format", w.format},
         {"shape", std::vector<std::int64_t>(w.shape.dims().begin(), w.shape.dims().end())},
         {"layout", w.layout},
         {"bytes", w.bytes},
         {"parts", w.recipe.parts}});
  return weights;
}

OrderedJson passes_json(const ModelContents& c) {
  OrderedJson passes = OrderedJson::array();
  for (const PassSummary& p : c.passes)
    passes.push_back({{"name", p.name},
                      {"purpose", p.purpose},
                      {"changed", p.changed},
                      {"skipped", p.skipped},
                      {"seconds", p.seconds},
                      {"nodes", p.nodes}});
  return passes;
}

std::string summary(const ModelContents& c) {
  const EngineInfo& i = c.info;
  std::string text = fmt::format(
      "{}\n  family       {} ({})\n  parameters   {}\n  layers       {}\n  vocabulary   {}\n"
      "  target       {}, {}\n  profile      {} sequences of up to {} tokens, {} tokens a step\n"
      "  KV cache     {}\n  weights      {}\n",
      i.name, i.family, i.architecture, i.parameters, i.layers, i.vocab, c.plan.target,
      c.plan.mode == ComputeMode::kF32 ? "f32" : "native", i.max_batch, i.max_seq,
      c.plan.max[Symbol::kTokens], kv_cache_name(c.plan), human_bytes(c.plan.weight_bytes()));
  if (const KvReach reach = kv_reach(c.plan); reach.window > 0)
    text += fmt::format("  attention    the last {} tokens, and the first {}\n", reach.window,
                        reach.sink_tokens);
  for (const auto& [format, values] : i.weight_formats)
    text += fmt::format("    {:10} {} values\n", format, values);
  return text + fmt::format("  steps        {} kernels, {} of them the head\n", c.plan.steps.size(),
                            c.plan.steps.size() - static_cast<std::size_t>(c.plan.head_begin));
}

std::string weights_text(const Plan& plan) {
  std::string text;
  for (const PlanWeight& w : plan.weights)
    text += fmt::format("{:40} {:8} {:16} {:24} {:>12}\n", w.name, w.format, to_string(w.shape),
                        w.layout, w.bytes);
  return text;
}

std::string passes_text(const ModelContents& c) {
  std::string text;
  for (const PassSummary& p : c.passes)
    text += fmt::format("{:20} {:8} {:5} nodes {:8.2f} ms  {}\n", p.name,
                        p.skipped   ? "skipped"
                        : p.changed ? "changed"
                                    : "",
                        p.nodes, p.seconds * 1e3, p.purpose);
  return text;
}

std::string plan_text(const Plan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.steps.size(); ++i)
    text += fmt::format("{:4} {:20} {}{}\n", i, plan.steps[i].op, plan.steps[i].kernel,
                        static_cast<std::int64_t>(i) == plan.head_begin ? "  # head begins" : "");
  return text;
}

void verify(const InspectOptions& o) {
  if (!is_engine(o.model.model))
    fail(ErrorCode::kUsage, "[usage] --verify checks an engine file; {} is none", o.model.model);
  const EngineFile file{std::filesystem::path(o.model.model)};
  Progress progress;
  file.verify_blobs([&](std::uint64_t done) {
    progress.update(static_cast<double>(done) / static_cast<double>(file.file_bytes()),
                    "verifying");
  });
}

OrderedJson whole_json(const InspectOptions& o, const ModelContents& c) {
  OrderedJson json;
  json["info"] = OrderedJson::parse(dump_json(to_json(c.info)));
  json["target"] = c.plan.target;
  json["compute"] = c.plan.mode == ComputeMode::kF32 ? "f32" : "native";
  json["kv_cache"] = kv_cache_name(c.plan);
  const KvReach reach = kv_reach(c.plan);
  json["attention_window"] = reach.window;
  json["sink_tokens"] = reach.sink_tokens;
  json["weight_bytes"] = c.plan.weight_bytes();
  json["activation_bytes"] = c.plan.arena_bytes;
  if (is_engine(o.model.model)) {
    const EngineFile file{std::filesystem::path(o.model.model)};
    json["file_bytes"] = file.file_bytes();
    json["blobs"] = blobs_json(file);
  }
  if (o.verify) json["verified"] = true;
  if (o.graph) json["graph"] = c.graph;
  if (o.dot) json["dot"] = graph_dot(c.graph);
  if (o.plan) json["plan"] = OrderedJson::parse(dump_json(to_json(c.plan)));
  if (o.weights) json["weights"] = weights_json(c.plan);
  if (o.passes) json["passes"] = passes_json(c);
  return json;
}

int inspect(const InspectOptions& o) {
  const bool others = o.graph || o.plan || o.weights || o.passes || o.verify;
  if (o.dot && others && !o.json)
    fail(ErrorCode::kUsage,
         "[usage] --dot prints a file for Graphviz, and nothing fits beside it: leave the "
         "others out, or add --json");
  o.model.refuse_draft("inspect");
  const OpenOptions options = o.model.open_options();
  if (o.verify) verify(o);
  const auto device = is_engine(o.model.model)
                          ? open_device("cpu")
                          : open_device(options.device, {.run = options.threads});
  const ModelContents c = read_contents(o.model.model, *device, options);
  check_settings(o.model, c.info, c.plan);
  if (o.json) {
    print_json(whole_json(o, c));
    return 0;
  }
  if (o.graph) print(c.graph);
  if (o.dot) print(graph_dot(c.graph));
  // An engine's kernels are chosen again on the processor that opens it.
  if (o.plan && is_engine(o.model.model)) print("# kernels as built\n");
  if (o.plan) print(plan_text(c.plan));
  if (o.weights) print(weights_text(c.plan));
  if (o.passes) print(passes_text(c));
  if (o.verify) print("every blob agrees with its checksum\n");
  if (!(o.graph || o.dot || o.plan || o.weights || o.passes || o.verify)) print(summary(c));
  return 0;
}

}  // namespace

void declare_inspect(Command& command) {
  auto o = std::make_shared<InspectOptions>();
  command.describe(
      "What is inside a model: of an engine what it holds, of a checkpoint what it\n"
      "compiles to.",
      "ingot inspect smollm2.ingot --weights");
  o->model.declare(command);
  command.flag("--graph", o->graph, "the graph after the passes, as text");
  command.flag("--dot", o->dot, "the graph for Graphviz, and nothing else");
  command.flag("--plan", o->plan,
               "the kernels in order; an engine's as they were when it was built");
  command.flag("--weights", o->weights, "every weight: format, shape, layout, bytes");
  command.flag("--passes", o->passes, "the compiler's passes: what each did, in which time");
  command.flag("--verify", o->verify, "read every blob of an engine and compare checksums");
  command.flag("--json", o->json, "one object");
  command.action([o] { return inspect(*o); });
}

}  // namespace ingot::cli
