#include "base/error.h"
#include "cli/memory_report.h"
#include "cli/options.h"
#include "cli/output.h"
#include "llm/devices.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct PlanOptions {
  ModelOptions model;
  std::optional<std::string> target;
  bool json = false;
};

int plan(const PlanOptions& o) {
  if (o.target && o.model.device != "auto")
    fail(ErrorCode::kUsage, "[usage] give either --target or --device");
  const OpenOptions options = o.model.open_options();
  const DeviceThreads threads{.run = options.threads};
  auto device = o.target ? open_target(*o.target, threads) : open_device(options.device, threads);
  const ModelContents contents = read_contents(o.model.model, *device, options);
  check_settings(o.model, contents.info, contents.plan);
  // Of a checkpoint the plan is the device's; an engine's table is of its own target, here or not.
  if (contents.plan.target != device->info().target) {
    if (o.target || o.model.device != "auto")
      fail(ErrorCode::kUsage,
           "[usage] {} was built for {}, not for {}; leave --target and --device out",
           o.model.model, contents.plan.target, device->info().target);
    device = open_target(contents.plan.target, threads);
  }
  const MemoryReport report = report_memory(o.model.model, contents, *device, options);
  if (o.json)
    print_json(to_json(report));
  else
    print(to_text(report));
  return 0;
}

}  // namespace

void declare_plan(Command& command) {
  auto o = std::make_shared<PlanOptions>();
  command.describe(
      "The memory table, and the largest batch and length that fit; --memory asks for a device of\n"
      "any size. A --max-seq that does not fit does not start; without the option a model starts\n"
      "with a shorter context and a warning. Reads no weights.",
      "ingot plan smollm2.gguf --memory 2G --max-batch 16");
  o->model.declare(command);
  command.option("--target", o->target, "cpu or an architecture such as sm_90a, here or not");
  command.flag(
      "--json", o->json,
      "one object: memory, kv_cache, kv_bytes_per_token, memory_limit, starts, largest_seq (the\n"
      "context it starts with), largest_batch");
  command.action([o] { return plan(*o); });
}

}  // namespace ingot::cli
