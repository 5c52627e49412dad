#pragma once

#include "device/kernel.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// From a kernel's name and its defines to machine code of one architecture.
namespace ingot::cuda {

// The architectures that every kernel is compiled for in CI.
inline constexpr std::string_view kDesignTargets[] = {"sm_80", "sm_89", "sm_90a", "sm_100a",
                                                      "sm_120"};

struct KernelSource {
  std::string stem;                                          // of kernels/<stem>.cu
  std::vector<std::pair<std::string, std::string>> defines;  // what it is specialised on, named
  std::vector<std::string> included;  // headers that a define names: "cuda/device/weight_q4_1.cuh"
};

// From the assembler's report.
struct ResourceUse {
  int registers = 0;
  int shared_bytes = 0;  // static
  int stack_bytes = 0;   // local memory: arrays that did not fit registers
  int spill_bytes = 0;   // stores and loads
};

struct CompiledKernel {
  std::string name;  // content name: architecture, stem, hash of text, defines and options
  std::string cubin;
  ResourceUse use;
};

struct JitOptions {
  bool use_cache = true;               // false: always compiles
  std::filesystem::path cache_folder;  // empty: $INGOT_CACHE/kernels, else ~/.cache/ingot/kernels
  // Told of everything that was compiled or read from the cache folder.
  std::function<void(const CompiledKernel&)> on_compiled;
};

// Compiles for one architecture ("sm_90a"). Thread safe: it keeps nothing but its options.
class Jit {
 public:
  explicit Jit(std::string arch, JitOptions options = {});

  const std::string& arch() const { return arch_; }

  // Depends on nothing but the binary's device code, the defines and the architecture, so that an
  // engine with its cubins needs no NVRTC.
  std::string content_name(const KernelSource& source) const;

  // The cubin, from `code` if it is there, else from the cache folder, else compiled; then `code`
  // holds it. Throws Error{kDevice}: no NVRTC (the message names the command that brings it), an
  // architecture that this NVRTC does not know, or a compile error with its log.
  const std::string& compile(const KernelSource& source, CodeStore& code) const;

 private:
  CompiledKernel compile_now(const KernelSource& source, const std::string& name) const;
  std::filesystem::path cache_path(const std::string& name) const;

  std::string arch_;
  JitOptions options_;
};

// "Used 24 registers, ... 360 bytes smem" and "0 bytes stack frame, ..." of ptxas -v.
ResourceUse parse_resource_use(std::string_view log);

// A cache file: header with checksum, resources, cubin. Nothing when it is torn or of another
// format.
std::string encode_cache_file(const CompiledKernel& kernel);
std::optional<CompiledKernel> decode_cache_file(std::string_view bytes, std::string_view name);

}  // namespace ingot::cuda
