#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>

// The functions of libcuda that Ingot uses, loaded with dlopen: building needs no CUDA toolkit, and
// one binary runs with or without a GPU. Where the toolkit's headers exist, a test asserts that
// types and values agree with <cuda.h>.
namespace ingot::cuda {

using DevicePointer = unsigned long long;    // CUdeviceptr
using DeviceHandle = int;                    // CUdevice
using Status = int;                          // CUresult; 0 is success
using ContextHandle = struct ContextTag*;    // CUcontext
using StreamHandle = struct StreamTag*;      // CUstream
using EventHandle = struct EventTag*;        // CUevent
using ModuleHandle = struct ModuleTag*;      // CUmodule
using FunctionHandle = struct FunctionTag*;  // CUfunction

// Values of the driver's enums, as <cuda.h> has them.
inline constexpr Status kSuccess = 0;
inline constexpr Status kErrorOutOfMemory = 2;
inline constexpr Status kErrorNoDevice = 100;
inline constexpr int kAttributeMultiprocessorCount = 16;
inline constexpr int kAttributeComputeMajor = 75;
inline constexpr int kAttributeComputeMinor = 76;
inline constexpr int kAttributeMaxSharedPerBlockOptin = 97;
inline constexpr int kFunctionAttributeLocalBytes = 3;
inline constexpr int kFunctionAttributeRegisters = 4;
inline constexpr int kFunctionAttributeMaxDynamicShared = 8;
inline constexpr int kLaunchAttributeProgrammaticStream = 6;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

// CUlaunchAttribute, of which only whole numbers are used.
struct LaunchAttribute {
  int id = 0;
  alignas(8) int value = 0;
  int rest_of_the_union[15] = {};
};
// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct DriverApi {
  Status (*get_error_name)(Status, const char**);
  Status (*get_error_string)(Status, const char**);
  Status (*init)(unsigned);
  Status (*driver_get_version)(int*);
  Status (*device_get_count)(int*);
  Status (*device_get)(DeviceHandle*, int);
  Status (*device_get_name)(char*, int, DeviceHandle);
  Status (*device_get_attribute)(int*, int, DeviceHandle);
  Status (*device_total_mem)(std::size_t*, DeviceHandle);
  Status (*primary_ctx_retain)(ContextHandle*, DeviceHandle);
  Status (*primary_ctx_release)(DeviceHandle);
  Status (*ctx_set_current)(ContextHandle);
  Status (*mem_get_info)(std::size_t*, std::size_t*);
  Status (*mem_alloc)(DevicePointer*, std::size_t);
  Status (*mem_free)(DevicePointer);
  Status (*mem_host_alloc)(void**, std::size_t, unsigned);
  Status (*mem_free_host)(void*);
  Status (*memcpy_htod_async)(DevicePointer, const void*, std::size_t, StreamHandle);
  Status (*memcpy_dtoh_async)(void*, DevicePointer, std::size_t, StreamHandle);
  Status (*memcpy_dtod_async)(DevicePointer, DevicePointer, std::size_t, StreamHandle);
  Status (*memset_d8_async)(DevicePointer, unsigned char, std::size_t, StreamHandle);
  Status (*stream_create)(StreamHandle*, unsigned);
  Status (*stream_destroy)(StreamHandle);
  Status (*stream_synchronize)(StreamHandle);
  Status (*event_create)(EventHandle*, unsigned);
  Status (*event_destroy)(EventHandle);
  Status (*event_record)(EventHandle, StreamHandle);
  Status (*event_synchronize)(EventHandle);
  Status (*module_load_data)(ModuleHandle*, const void*);
  Status (*module_unload)(ModuleHandle);
  Status (*module_get_function)(FunctionHandle*, ModuleHandle, const char*);
  Status (*func_get_attribute)(int*, int, FunctionHandle);
  Status (*func_set_attribute)(FunctionHandle, int, int);
  Status (*launch_kernel)(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned, StreamHandle, void**, void**);
  Status (*launch_kernel_ex)(const LaunchConfig*, FunctionHandle, void**, void**);
  // Loads the code of a lazily loaded function now, so that the first launch allocates nothing.
  // Null in drivers before CUDA 12.4.
  Status (*func_load)(FunctionHandle);
};

// Opens `library` and resolves every function through cuGetProcAddress at the version this was
// written against. The error says what is missing: "libcuda.so.1: cannot open shared object file".
Result<DriverApi> load_driver_api(const char* library);

// The process's driver, loaded and initialised (cuInit) once.
const Result<DriverApi>& driver_api();

// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string describe_status(const DriverApi& api, Status status);

}  // namespace ingot::cuda
