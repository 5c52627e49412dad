#include "cli/command_line.h"
#include "cli/output.h"
#include "llm/devices.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

int devices(bool json) {
  if (json) {
    print_json(OrderedJson::parse(dump_json(device_details())));
    return 0;
  }
  for (const DeviceReport& d : report_devices()) {
    const char* state = d.chosen ? "used" : d.usable ? "usable" : "not usable";
    print(fmt::format("{:8} {:10} {}{}\n", d.name, state, d.description,
                      d.reason.empty() ? "" : fmt::format(" ({})", d.reason)));
  }
  return 0;
}

}  // namespace

void declare_devices(Command& command) {
  auto json = std::make_shared<bool>(false);
  command.describe(
      "What is here, what is used, and why not the rest.\n"
      "INGOT_CPU=generic|avx2|avx512|... caps the CPU's instructions.",
      "ingot devices --json");
  command.flag("--json", *json, "one object: devices, cpu, cuda");
  command.action([json] { return devices(*json); });
}

}  // namespace ingot::cli
