#pragma once

#include "builder/checkpoint.h"
#include "compile/compile.h"
#include "device/device.h"
#include "plan/engine_file.h"
#include "plan/engine_info.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ingot {

struct BuildOptions {
  ComputeMode mode = ComputeMode::kNative;
  std::string quant = "none";     // a quant/ format for float weights, or "none"
  std::string kv_cache = "auto";  // bf16, int8 or fp8 (e4m3), or "auto": the device's own
  // Layers see at most so many tokens, the current one included; 0: as the model has it.
  std::int64_t attention_window = 0;
  std::int64_t sink_tokens = 0;   // first tokens that layers with a window see in spite of it
  std::int64_t max_batch = 8;     // sequences of a step
  std::int64_t max_seq = 0;       // 0: the model's own, at most 8,192
  std::int64_t max_tokens = 512;  // tokens of a step
  std::vector<std::string> skip_passes;
  int workers = 0;  // threads that convert weights; 0: what the machine gives. Same bytes by any
  // Part of the whole done, [0, 1], and what is being done.
  std::function<void(double, const std::string&)> progress;
};

// The compiled model before its weights are written.
struct BuiltModel {
  EngineInfo info;
  Compiled compiled;
};

// Config and slot types to graph to plan. Reads no weights.
BuiltModel compile_checkpoint(const Checkpoint& checkpoint, const Device& device,
                              const BuildOptions& options);

// What the plan's KV cache is kept in, as BuildOptions::kv_cache names it, or f32 or f16; "none"
// without a cache.
std::string kv_cache_name(const Plan& plan);

// One line about the matrices that keep the checkpoint's own block format whatever
// BuildOptions::quant says; "" where it was followed throughout.
std::string kept_formats(const Plan& plan, const std::string& quant);

// Packs the weights one at a time (host peak: a few times the largest tensor) and writes the
// engine; all or nothing.
void write_engine(const Checkpoint& checkpoint, const Device& device, const BuildOptions& options,
                  BuiltModel model, EngineWriter& writer);

// Where the bytes go when this plan runs on this device with a KV pool of `kv_pages`.
struct MemoryNeeds {
  std::uint64_t weights = 0;
  std::uint64_t activations = 0;  // arena: inputs included
  std::uint64_t workspace = 0;
  std::uint64_t page = 0;  // one page of every layer
  std::uint64_t fixed() const { return weights + activations + workspace; }
};
MemoryNeeds memory_needs(const Plan& plan, const Device& device);

// Name of an engine in the cache: what its contents depend on, hashed.
std::string engine_cache_key(const std::string& checkpoint_identity, const Device& device,
                             const BuildOptions& options);

}  // namespace ingot
