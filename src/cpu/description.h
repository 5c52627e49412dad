#pragma once

#include "cpu/simd/tier.h"

#include <string>
#include <string_view>
#include <vector>

namespace ingot::cpu {

struct NumaNode {
  int number = 0;
  std::vector<int> cpus;
};

// What `ingot devices` says of the processor.
struct CpuDescription {
  std::string model;               // "AMD EPYC 7763 64-Core Processor"
  std::vector<std::string> tiers;  // that processor and operating system offer, "generic" first
  std::string tier;                // the one used
  std::string reason;              // why that one
  int online = 0;                  // logical CPUs of the machine
  int cores = 0;                   // physical cores of the machine
  int sockets = 0;
  double quota = 0;  // CPUs that the control group allows, 0: no limit
  int threads = 0;   // used unless told otherwise
  std::vector<NumaNode> nodes;
};

// Read below `root` ("/" but for tests). Throws what best_tier() throws.
CpuDescription describe_cpu(const std::string& root = "/");

// The tier of that name, or the highest below it that is usable; best_tier() for "". Throws
// Error{kUsage}.
Tier tier_under(std::string_view name);

// "0-3,8,10-11" of sysfs; numbers that make no sense end the list.
std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace ingot::cpu
