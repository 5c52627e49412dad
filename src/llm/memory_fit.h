#pragma once

#include "device/device.h"
#include "llm/contents.h"
#include "llm/open_options.h"
#include "plan/plan.h"

#include <cstdint>
#include <string>

namespace ingot {

// What fits into `cap` bytes on a device.
struct FitReport {
  std::int64_t longest = 0;    // tokens of one sequence, at most the profile's; 0: nothing fits
  std::int64_t sequences = 0;  // of the profile's longest length at once
};
// An engine keeps its profile, so its sequences are at most its max_batch; a checkpoint is compiled
// again for each number tried.
FitReport find_fit(const std::string& model, const ModelContents& contents, const Device& device,
                   const OpenOptions& options, std::uint64_t cap);

// What a plan takes with the KV pages of one sequence of so many tokens: less does not start.
std::uint64_t least_memory(const Plan& plan, const Device& device, std::int64_t tokens);

// The option that gives so much, in whole MiB: "--memory 61M".
std::string memory_option(std::uint64_t bytes);

struct StartNeeds {
  std::uint64_t cap = 0;     // bytes
  std::uint64_t others = 0;  // of them, taken by what is not in the plan: host pages, a draft model
  std::uint64_t host = 0;    // of others, host pages
  std::int64_t tokens = 0;   // one sequence of so many has to fit
};
// What would start where this profile does not: the nearest by each option alone that can do it, as
// "--max-seq 96, --max-batch 3 or --memory 61M"; --memory only where the device has so much. Of an
// engine only memory can change.
std::string nearest_that_starts(const std::string& model, const ModelContents& contents,
                                const Device& device, const OpenOptions& options,
                                const StartNeeds& needs);

}  // namespace ingot
