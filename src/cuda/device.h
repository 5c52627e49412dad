#pragma once

#include "cuda/jit.h"
#include "device/device.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// NVIDIA GPUs. The only header of this floor that floors above name.
namespace ingot::cuda {

// The GPU `ordinal`. Throws Error{kDevice} when there is no driver, no such GPU, or one before
// compute capability 8.0.
std::unique_ptr<Device> make_cuda_device(int ordinal, JitOptions options = {});

// A GPU that need not be here: builds engines through NVRTC, runs nothing (info().present is
// false). Throws Error{kUsage} when `arch` is no target ("sm_90a", ...).
std::unique_ptr<Device> make_cuda_target(std::string_view arch, JitOptions options = {});

// What `ingot devices` tells.
struct GpuDescription {
  int ordinal = 0;
  std::string name;    // "NVIDIA H200"
  std::string target;  // "sm_90a"; empty when Ingot does not support it
  std::size_t total_memory = 0;
};
struct CudaDescription {
  std::string driver;  // "CUDA 13.0", or why there is none
  bool driver_found = false;
  std::vector<GpuDescription> gpus;
};
CudaDescription describe_cuda();

// On its own: looking opens the library, tens of MiB that only compiling is worth.
struct NvrtcDescription {
  std::string text;  // "13.0, /usr/local/cuda/lib64/libnvrtc.so.13", or why there is none
  bool found = false;
};
NvrtcDescription describe_nvrtc();

}  // namespace ingot::cuda
