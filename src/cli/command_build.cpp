#include "base/error.h"
#include "cli/memory_report.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/contents.h"
#include "llm/devices.h"
#include "llm/resolve.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct BuildCommand {
  ModelOptions model;
  std::string out;
  std::optional<std::string> target;
  std::optional<std::int64_t> workers;
  bool dry_run = false;
  bool json = false;
  std::string compute;
};

int build(BuildCommand& o) {
  if (o.out.empty() && !o.dry_run) fail(ErrorCode::kUsage, "[usage] give -o FILE or --dry-run");
  refuse_standard_output(o.out);
  if (o.target && o.model.device != "auto")
    fail(ErrorCode::kUsage, "[usage] give either --target or --device");
  if (!o.compute.empty())
    o.model.mode = o.compute == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  if (is_engine(o.model.model))
    fail(ErrorCode::kUsage, "[build] {} is an engine already; `ingot plan` prints its memory table",
         o.model.model);
  o.model.tell_threads();
  OpenOptions options = o.model.open_options();
  if (o.workers) options.build.workers = static_cast<int>(*o.workers);
  const DeviceThreads threads{.run = options.threads, .pack = options.build.workers};
  const auto device =
      o.target ? open_target(*o.target, threads) : open_device(options.device, threads);
  // Before the model, which may have to be fetched: a place that cannot be written is told at once.
  std::optional<EngineWriter> writer;
  if (!o.dry_run) {
    refuse_over_input(o.out, model_files(o.model.model));
    writer.emplace(o.out);
  }
  const ModelContents contents = read_contents(o.model.model, *device, options);
  check_settings(o.model, contents.info, contents.plan);
  const MemoryReport report = report_memory(o.model.model, contents, *device, options);
  if (!o.json) print(to_text(report));
  refuse_what_cannot_start(report);
  if (writer) {
    Progress progress;
    options.progress = [&](double part, const std::string& what) { progress.update(part, what); };
    build_engine_file(o.model.model, *device, options, *writer);
    progress.finish();
  }
  if (!o.json) return 0;
  OrderedJson json = to_json(report);
  if (!o.dry_run) {
    std::error_code device;  // what is no file has no size
    const auto bytes = std::filesystem::file_size(o.out, device);
    json["engine"] = o.out;
    json["engine_bytes"] = device ? OrderedJson(nullptr) : OrderedJson(bytes);
  }
  print_json(json);
  return 0;
}

}  // namespace

void declare_build(Command& command) {
  auto o = std::make_shared<BuildCommand>();
  command.describe(
      "Compiles a checkpoint into one engine file and prints the memory table. Refuses what could\n"
      "not start; writes the file whole or not at all.",
      "ingot build smollm2.gguf -o smollm2.ingot --max-batch 4 --max-seq 4096");
  o->model.declare(command);
  command.option("-o,--out", o->out, "the engine file");
  command.option("--target", o->target, "cpu or an architecture such as sm_90a, here or not");
  command.option("--workers", o->workers, {1, kMaxThreads},
                 "threads that convert and pack weights (default: --threads)");
  command.choice("--compute", o->compute, {"native", "f32"},
                 "arithmetic: the device's own (default), or float32");
  command.flag("--dry-run", o->dry_run, "print the memory table, write nothing");
  command.flag("--json", o->json, "the table as one object");
  command.action([o] { return build(*o); });
}

}  // namespace ingot::cli
