#pragma once

#include "device/device.h"
#include "llm/open_options.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ingot {

// Whether MODEL is a file that begins as an engine does, or is named as one (.ingot).
bool is_engine(const std::string& model);

// The engine for MODEL on `device`: MODEL itself when it is one, otherwise the cached engine of the
// checkpoint, built now if it is not there yet. Hub names are fetched first. A cache that cannot be
// written is Error{kSystem} that says where.
std::filesystem::path resolve_engine(const std::string& model, const Device& device,
                                     const OpenOptions& options);

// The checkpoint that MODEL names: a path that exists wins over a hub name.
std::filesystem::path resolve_checkpoint(const std::string& model, const OpenOptions& options);

// The files that MODEL is read from, as far as it names a path: an output may replace none of them.
std::vector<std::filesystem::path> model_files(const std::string& model);

// What a checkpoint compiles to for `device`; reads no weights. Throws Error{kUsage} for an engine.
BuiltModel compile_model(const std::string& model, const Device& device,
                         const OpenOptions& options);

// Builds MODEL into a file that is open already: that it cannot be written is told before any work.
void build_engine_file(const std::string& model, const Device& device, const OpenOptions& options,
                       EngineWriter& writer);

// INGOT_CACHE, else XDG_CACHE_HOME/ingot, else ~/.cache/ingot.
std::filesystem::path cache_folder();

}  // namespace ingot
