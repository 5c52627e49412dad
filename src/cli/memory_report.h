#pragma once

#include "base/json.h"
#include "llm/contents.h"
#include "llm/memory_fit.h"
#include "llm/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::cli {

// Where the bytes go, and what fits: for `build` and `plan`.
struct MemoryReport {
  std::string model;
  std::string target;
  std::int64_t max_batch = 0;
  std::int64_t max_seq = 0;
  std::vector<MemoryRow> rows;  // with a KV pool for max_batch sequences of max_seq, the sum last
  std::string kv_cache;         // kv_cache_name
  std::uint64_t kv_token = 0;   // bytes of KV cache a token
  std::uint64_t cap = 0;        // 0: not known, the target is not here
  FitReport fit;                // where the cap is known
  std::uint64_t least = 0;      // with a KV pool for one sequence of max_seq
  std::string nearest;  // what would hold it (nearest_that_starts()), where the cap does not
  // max_seq was asked for: where the cap is below `least` the model does not start. Otherwise it
  // does, with a shorter context, from `shortest` bytes on.
  bool asked = false;
  std::uint64_t shortest = 0;
  std::int64_t shortest_context = 0;

  bool starts() const { return asked ? fit.longest == max_seq : fit.longest > 0; }
};

// Throws Error{kUsage} for options that name a draft model.
MemoryReport report_memory(const std::string& model, const ModelContents& contents,
                           const Device& device, const OpenOptions& options);
// Throws Error{kDoesNotFit} with the numbers and the nearest that would, when not one sequence of
// the longest length could run: an engine is built for no shorter context than it says.
void refuse_what_cannot_start(const MemoryReport& report);

std::string to_text(const MemoryReport& report);
OrderedJson to_json(const MemoryReport& report);

}  // namespace ingot::cli
