#include "cuda/nvrtc_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

namespace ingot::cuda {
namespace {

namespace fs = std::filesystem;

// Newest major first; the soname carries the major version.
constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Existing NVRTC libraries in `folder`, newest first.
void add_from(const fs::path& folder, std::vector<std::string>& out) {
  std::error_code ignored;
  for (const char* name : kNames) {
    const fs::path path = folder / name;
    if (fs::exists(path, ignored)) out.push_back(path.string());
  }
}

void add_toolkit(const fs::path& root, std::vector<std::string>& out) {
  for (const char* folder : {"", "lib64", "lib", "targets/x86_64-linux/lib"})
    add_from(root / folder, out);
}

// Wheels lay their libraries under nvidia/: one folder a library up to CUDA 12, one a toolkit
// since CUDA 13.
void add_site_packages(const fs::path& packages, std::vector<std::string>& out) {
  for (const char* folder : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cu12/lib"})
    add_from(packages / folder, out);
}

// prefix/lib/python3.*/{site,dist}-packages, newest Python first.
void add_python_prefix(const fs::path& prefix, std::vector<std::string>& out) {
  std::error_code ignored;
  std::vector<fs::path> versions;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", ignored))
    if (entry.path().filename().string().starts_with("python3")) versions.push_back(entry.path());
  std::sort(versions.rbegin(), versions.rend());
  for (const fs::path& version : versions)
    for (const char* packages : {"site-packages", "dist-packages"})
      add_site_packages(version / packages, out);
}

// The prefixes of every python3 on PATH: an environment's own comes before the system's.
std::vector<fs::path> python_prefixes() {
  std::vector<fs::path> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string value = environment(name); !value.empty()) prefixes.emplace_back(value);
  const std::string path = environment("PATH");
  std::error_code ignored;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path folder = path.substr(begin, end - begin);
    if (!folder.empty() && fs::exists(folder / "python3", ignored))
      prefixes.push_back(folder.parent_path());
    begin = end + 1;
  }
  if (const std::string home = environment("HOME"); !home.empty())
    prefixes.push_back(fs::path(home) / ".local");
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  return prefixes;
}

struct Resolver {
  void* handle = nullptr;
  std::string missing;

  template <typename Function>
  void operator()(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function) missing += std::string(missing.empty() ? "" : ", ") + name;
  }
};

Error not_usable(std::string message) {
  return Error(ErrorCode::kDevice, std::move(message));
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> candidates;
  if (const std::string root = environment("INGOT_CUDA_PATH"); !root.empty()) {
    add_toolkit(root, candidates);
    add_site_packages(root, candidates);
  }
  candidates.insert(candidates.end(), kNames.begin(), kNames.end());
  for (const fs::path& prefix : python_prefixes()) add_python_prefix(prefix, candidates);
  add_toolkit("/usr/local/cuda", candidates);
  return candidates;
}

Result<NvrtcApi> open_nvrtc(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    return not_usable(fmt::format("[cuda.nvrtc] {}", reason ? reason : library + ": not found"));
  }
  NvrtcApi api{};
  Resolver resolve{handle, {}};
  resolve(api.get_error_string, "nvrtcGetErrorString");
  resolve(api.version, "nvrtcVersion");
  resolve(api.create_program, "nvrtcCreateProgram");
  resolve(api.destroy_program, "nvrtcDestroyProgram");
  resolve(api.compile_program, "nvrtcCompileProgram");
  resolve(api.get_log_size, "nvrtcGetProgramLogSize");
  resolve(api.get_log, "nvrtcGetProgramLog");
  resolve(api.get_cubin_size, "nvrtcGetCUBINSize");
  resolve(api.get_cubin, "nvrtcGetCUBIN");
  resolve(api.get_num_supported_archs, "nvrtcGetNumSupportedArchs");
  resolve(api.get_supported_archs, "nvrtcGetSupportedArchs");
  if (!resolve.missing.empty()) {
    dlclose(handle);
    return not_usable(fmt::format("[cuda.nvrtc] {} lacks {}", library, resolve.missing));
  }
  if (api.version(&api.major, &api.minor) != 0)
    return not_usable(fmt::format("[cuda.nvrtc] {}: nvrtcVersion failed", library));
  // The file behind a bare name, for people.
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<const void*>(api.version), &info) != 0;
  api.path = known && info.dli_fname ? info.dli_fname : library;
  return api;
}

Result<NvrtcApi> find_nvrtc(const std::vector<std::string>& candidates) {
  std::string reasons;
  for (const std::string& candidate : candidates) {
    Result<NvrtcApi> api = open_nvrtc(candidate);
    if (api) return api;
    if (candidate.find('/') != std::string::npos) reasons += "; " + api.error().message();
  }
  return not_usable(
      "[cuda.nvrtc] no NVRTC to compile GPU kernels with: pip install nvidia-cuda-nvrtc (or set "
      "INGOT_CUDA_PATH to a CUDA toolkit)" +
      reasons);
}

const Result<NvrtcApi>& nvrtc_api() {
  static const Result<NvrtcApi> api = find_nvrtc(nvrtc_candidates());
  return api;
}

}  // namespace ingot::cuda
