#pragma once

#include "base/json.h"
#include "device/device.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Of the CPU.
struct DeviceThreads {
  int run = 0;   // 0: what the machine gives
  int pack = 0;  // weights; 0: as many as run
};

// Opens "cpu", "cuda", "cuda:1" or "auto" (a GPU where one can be used, otherwise the CPU). Throws
// Error{kDevice} that says why a named device cannot be used.
std::unique_ptr<Device> open_device(std::string_view name, const DeviceThreads& threads = {},
                                    bool memory_present = true);

// What an engine is built for: "cpu", or an architecture such as "sm_90a" that need not be here.
std::unique_ptr<Device> open_target(std::string_view target, const DeviceThreads& threads = {});

// What is here, what is used, and why not the rest: for `ingot devices`.
struct DeviceReport {
  std::string name;  // "cpu", "cuda:0"
  bool usable = false;
  bool chosen = false;  // by "auto"
  std::string description;
  std::string reason;  // why it is not usable, or why this one is chosen
};
std::vector<DeviceReport> report_devices();
// Everything known, as one JSON object.
Json device_details();

}  // namespace ingot
