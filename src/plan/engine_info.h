#pragma once

#include "base/json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

// Defaults of generation_config.json; absent where the file says nothing.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<std::int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// Where the bytes go, for people and for `plan`.
struct MemoryRow {
  std::string what;
  std::uint64_t bytes = 0;
};

// What the runtime knows of a model beside its plan.
struct EngineInfo {
  std::string name;
  std::string family;
  std::string architecture;
  std::string built_by;  // "ingot 0.1.0"
  std::string source;    // identity of the checkpoint and options: the cache key
  std::int64_t vocab = 0;
  std::int64_t layers = 0;
  std::int64_t parameters = 0;
  std::int64_t max_seq = 0;    // longest sequence: prompt and answer
  std::int64_t max_batch = 0;  // sequences of a step
  std::int64_t rope_long_from =
      0;  // requests that may grow longer use row 1 of the rope table; 0: one row
  std::vector<std::int32_t> end_ids;  // any of them ends an answer
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> eos_id;
  GenerationDefaults generation;
  std::vector<std::pair<std::string, std::int64_t>> weight_formats;  // values held in each format
};

Json to_json(const EngineInfo& info);
// Throws Error{kBadInput} naming what is wrong.
EngineInfo engine_info_from_json(const Json& json);

}  // namespace ingot
