#include "llm/resolve.h"

#include "base/error.h"
#include "base/log.h"
#include "builder/checkpoint.h"
#include "builder/checkpoint_files.h"
#include "builder/hub.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace ingot {

namespace fs = std::filesystem;

namespace {

Checkpoint open_for(const std::string& model, const OpenOptions& options) {
  const fs::path path = resolve_checkpoint(model, options);
  if (options.random_weights)
    return random_checkpoint(fs::is_directory(path) ? path / "config.json" : path,
                             options.random_format);
  Checkpoint checkpoint = open_checkpoint(path);
  for (const std::string& notice : checkpoint.notices) log_info("{}", notice);
  return checkpoint;
}

void build(const Checkpoint& checkpoint, const Device& device, const OpenOptions& options,
           EngineWriter& writer) {
  BuildOptions build = options.build;
  build.progress = options.progress;
  write_engine(checkpoint, device, build, compile_checkpoint(checkpoint, device, build), writer);
}

std::string identity_of(const std::string& model, const OpenOptions& options) {
  const fs::path path = resolve_checkpoint(model, options);
  return checkpoint_identity(path) +
         (options.random_weights ? " random " + options.random_format : "");
}

// Whether only a file or folder can be meant. `org/name:file.gguf` names a file of the hub.
bool is_plainly_path(std::string_view model) {
  for (const std::string_view start : {"/", "./", "../", "~"})
    if (model.starts_with(start)) return true;
  const std::string_view name = model.substr(0, model.find(':'));
  for (const std::string_view end : {".gguf", ".ingot", ".json", ".safetensors", ".pth", ".bin"})
    if (name.ends_with(end)) return true;
  std::error_code error;
  return fs::is_directory(name.substr(0, name.find('/')), error);
}

// Letters that are safe in a file name.
std::string plain_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
  return name.substr(0, 64);
}

}  // namespace

bool is_engine(const std::string& model) {
  std::error_code error;
  if (!fs::is_regular_file(model, error)) return false;
  return fs::path(model).extension() == ".ingot" || EngineFile::is_engine(model);
}

fs::path cache_folder() {
  if (const char* own = std::getenv("INGOT_CACHE"); own && *own) return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return fs::path(xdg) / "ingot";
  const char* home = std::getenv("HOME");
  return fs::path(home && *home ? home : "/tmp") / ".cache" / "ingot";
}

fs::path resolve_checkpoint(const std::string& model, const OpenOptions& options) {
  std::error_code error;
  if (fs::exists(model, error)) return model;
  if (is_plainly_path(model)) fail(ErrorCode::kSystem, "[model] {}: no such file or folder", model);
  if (!parse_hub_name(model))
    fail(ErrorCode::kSystem, "[model] {}: no such file or folder, and not a hub name (org/name)",
         model);
  return fetch_from_hub(model, HubOptions::from_environment(), [&](const HubProgress& p) {
    if (options.progress && p.total == 0) options.progress(0, "asking the hub");
    if (options.progress && p.total > 0)
      options.progress(static_cast<double>(p.bytes) / static_cast<double>(p.total),
                       "fetching " + std::string(p.file));
    return true;
  });
}

std::vector<fs::path> model_files(const std::string& model) {
  std::error_code error;
  if (!fs::exists(model, error)) return {};
  return fs::is_directory(model, error) ? checkpoint_files(model) : std::vector<fs::path>{model};
}

BuiltModel compile_model(const std::string& model, const Device& device,
                         const OpenOptions& options) {
  if (is_engine(model)) fail(ErrorCode::kUsage, "[build] {} is an engine already", model);
  return compile_checkpoint(open_for(model, options), device, options.build);
}

void build_engine_file(const std::string& model, const Device& device, const OpenOptions& options,
                       EngineWriter& writer) {
  if (is_engine(model)) fail(ErrorCode::kUsage, "[build] {} is an engine already", model);
  build(open_for(model, options), device, options, writer);
}

fs::path resolve_engine(const std::string& model, const Device& device,
                        const OpenOptions& options) {
  if (is_engine(model)) return model;
  std::error_code error;
  const fs::path folder = cache_folder() / "engines";
  const std::string key = engine_cache_key(identity_of(model, options), device, options.build);
  const fs::path path =
      folder / (plain_name(fs::path(model).stem().string()) + "-" + key.substr(0, 16) + ".ingot");
  if (fs::exists(path, error)) {
    try {
      const EngineFile whole(path);  // header and tables
      return path;
    } catch (const Error& e) {
      log_warning("{}; building it again", e.message());
    }
  }
  const Checkpoint checkpoint = open_for(model, options);  // what is wrong with it is told first
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK) != 0) error = {errno, std::generic_category()};
  if (error)
    fail(ErrorCode::kSystem,
         "[cache] {}: {}; set INGOT_CACHE to a folder that can be written, or `ingot build` to a "
         "file",
         folder.string(), error.message());
  EngineWriter writer(path);
  build(checkpoint, device, options, writer);
  return path;
}

}  // namespace ingot
