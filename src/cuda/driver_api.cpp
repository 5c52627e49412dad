#include "cuda/driver_api.h"

#include <dlfcn.h>

#include <string_view>
#include <utility>

namespace ingot::cuda {
namespace {

// cuGetProcAddress_v2: name, address, version, flags, what was found.
using GetProcAddress = Status (*)(const char*, void**, int, std::uint64_t, int*);

// The version decides which of a function's variants is meant (cuMemAlloc_v2, ...).
constexpr int kWrittenAgainst = 12000;
constexpr int kFuncLoadSince = 12040;

struct Resolver {
  GetProcAddress get = nullptr;
  std::string missing;

  template <typename Function>
  void operator()(Function& function, const char* name, int version = kWrittenAgainst) {
    void* address = nullptr;
    int found = 0;
    if (get(name, &address, version, 0, &found) != kSuccess || address == nullptr)
      missing += std::string(missing.empty() ? "" : ", ") + name;
    function = reinterpret_cast<Function>(address);
  }
};

void resolve_devices(DriverApi& api, Resolver& resolve) {
  resolve(api.get_error_name, "cuGetErrorName");
  resolve(api.get_error_string, "cuGetErrorString");
  resolve(api.init, "cuInit");
  resolve(api.driver_get_version, "cuDriverGetVersion");
  resolve(api.device_get_count, "cuDeviceGetCount");
  resolve(api.device_get, "cuDeviceGet");
  resolve(api.device_get_name, "cuDeviceGetName");
  resolve(api.device_get_attribute, "cuDeviceGetAttribute");
  resolve(api.device_total_mem, "cuDeviceTotalMem");
  resolve(api.primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  resolve(api.primary_ctx_release, "cuDevicePrimaryCtxRelease");
  resolve(api.ctx_set_current, "cuCtxSetCurrent");
}

void resolve_work(DriverApi& api, Resolver& resolve) {
  resolve(api.mem_get_info, "cuMemGetInfo");
  resolve(api.mem_alloc, "cuMemAlloc");
  resolve(api.mem_free, "cuMemFree");
  resolve(api.mem_host_alloc, "cuMemHostAlloc");
  resolve(api.mem_free_host, "cuMemFreeHost");
  resolve(api.memcpy_htod_async, "cuMemcpyHtoDAsync");
  resolve(api.memcpy_dtoh_async, "cuMemcpyDtoHAsync");
  resolve(api.memcpy_dtod_async, "cuMemcpyDtoDAsync");
  resolve(api.memset_d8_async, "cuMemsetD8Async");
  resolve(api.stream_create, "cuStreamCreate");
  resolve(api.stream_destroy, "cuStreamDestroy");
  resolve(api.stream_synchronize, "cuStreamSynchronize");
  resolve(api.event_create, "cuEventCreate");
  resolve(api.event_destroy, "cuEventDestroy");
  resolve(api.event_record, "cuEventRecord");
  resolve(api.event_synchronize, "cuEventSynchronize");
  resolve(api.module_load_data, "cuModuleLoadData");
  resolve(api.module_unload, "cuModuleUnload");
  resolve(api.module_get_function, "cuModuleGetFunction");
  resolve(api.func_get_attribute, "cuFuncGetAttribute");
  resolve(api.func_set_attribute, "cuFuncSetAttribute");
  resolve(api.launch_kernel, "cuLaunchKernel");
  resolve(api.launch_kernel_ex, "cuLaunchKernelEx");
}

Error device_error(std::string message) {
  return Error(ErrorCode::kDevice, std::move(message));
}

Result<DriverApi> load_and_initialise() {
  Result<DriverApi> loaded = load_driver_api("libcuda.so.1");
  if (!loaded) return loaded;
  if (const Status status = loaded->init(0); status != kSuccess)
    return device_error(fmt::format("[cuda.driver] cuInit: {}", describe_status(*loaded, status)));
  return loaded;
}

}  // namespace

Result<DriverApi> load_driver_api(const char* library) {
  // Never closed: the driver starts threads of its own.
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    return device_error(fmt::format("[cuda.driver] {}; is NVIDIA's driver installed?",
                                    reason ? reason : std::string(library) + ": not found"));
  }
  Resolver resolve{reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2")), {}};
  if (!resolve.get)
    return device_error(fmt::format(
        "[cuda.driver] {} has no cuGetProcAddress_v2: the driver is older than CUDA 12.0 "
        "(525), update it",
        library));
  DriverApi api{};
  resolve_devices(api, resolve);
  resolve_work(api, resolve);
  if (!resolve.missing.empty())
    return device_error(fmt::format("[cuda.driver] {} lacks {}", library, resolve.missing));
  resolve(api.func_load, "cuFuncLoad", kFuncLoadSince);  // optional
  return api;
}

const Result<DriverApi>& driver_api() {
  static const Result<DriverApi> api = load_and_initialise();
  return api;
}

std::string describe_status(const DriverApi& api, Status status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(status, &name) != kSuccess || !name)
    return fmt::format("CUDA error {}", status);
  if (api.get_error_string(status, &text) != kSuccess || !text) return name;
  return fmt::format("{} ({})", name, text);
}

}  // namespace ingot::cuda
