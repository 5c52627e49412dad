// Types and values that Ingot declares for itself, against the toolkit's own headers where there
// are any.
#include "cuda/driver_api.h"
#include "cuda/nvrtc_api.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>)
#include <cuda.h>
#include <nvrtc.h>

#include <cstddef>
#include <type_traits>

namespace {

// Handles are pointers to structs of other names, enums are ints: equal in the calling convention.
template <typename T>
auto plain() {
  if constexpr (std::is_enum_v<T>)
    return std::type_identity<int>{};
  else if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    if constexpr (std::is_class_v<Target>)
      return std::type_identity<void*>{};
    else if constexpr (std::is_pointer_v<Target> || std::is_enum_v<Target>)
      return std::type_identity<std::add_pointer_t<
          std::conditional_t<std::is_const_v<Target>,
                             const typename decltype(plain<std::remove_const_t<Target>>())::type,
                             typename decltype(plain<std::remove_const_t<Target>>())::type>>>{};
    else
      return std::type_identity<T>{};
  } else
    return std::type_identity<T>{};
}

template <typename Function>
struct Plain;
template <typename Result, typename... Arguments>
struct Plain<Result (*)(Arguments...)> {
  using Type =
      typename decltype(plain<Result>())::type (*)(typename decltype(plain<Arguments>())::type...);
};

template <typename Ours, typename Theirs>
constexpr bool kSame = std::is_same_v<typename Plain<Ours>::Type, typename Plain<Theirs>::Type>;

using ingot::cuda::DriverApi;
using ingot::cuda::NvrtcApi;

// The toolkit's macros turn cuMemAlloc into cuMemAlloc_v2 and so on, as cuGetProcAddress does.
static_assert(kSame<decltype(DriverApi::get_error_name), decltype(&cuGetErrorName)>);
static_assert(kSame<decltype(DriverApi::get_error_string), decltype(&cuGetErrorString)>);
static_assert(kSame<decltype(DriverApi::init), decltype(&cuInit)>);
static_assert(kSame<decltype(DriverApi::driver_get_version), decltype(&cuDriverGetVersion)>);
static_assert(kSame<decltype(DriverApi::device_get_count), decltype(&cuDeviceGetCount)>);
static_assert(kSame<decltype(DriverApi::device_get), decltype(&cuDeviceGet)>);
static_assert(kSame<decltype(DriverApi::device_get_name), decltype(&cuDeviceGetName)>);
static_assert(kSame<decltype(DriverApi::device_get_attribute), decltype(&cuDeviceGetAttribute)>);
static_assert(kSame<decltype(DriverApi::device_total_mem), decltype(&cuDeviceTotalMem)>);
static_assert(kSame<decltype(DriverApi::primary_ctx_retain), decltype(&cuDevicePrimaryCtxRetain)>);
static_assert(
    kSame<decltype(DriverApi::primary_ctx_release), decltype(&cuDevicePrimaryCtxRelease)>);
static_assert(kSame<decltype(DriverApi::ctx_set_current), decltype(&cuCtxSetCurrent)>);
static_assert(kSame<decltype(DriverApi::mem_get_info), decltype(&cuMemGetInfo)>);
static_assert(kSame<decltype(DriverApi::mem_alloc), decltype(&cuMemAlloc)>);
static_assert(kSame<decltype(DriverApi::mem_free), decltype(&cuMemFree)>);
static_assert(kSame<decltype(DriverApi::mem_host_alloc), decltype(&cuMemHostAlloc)>);
static_assert(kSame<decltype(DriverApi::mem_free_host), decltype(&cuMemFreeHost)>);
static_assert(kSame<decltype(DriverApi::memcpy_htod_async), decltype(&cuMemcpyHtoDAsync)>);
static_assert(kSame<decltype(DriverApi::memcpy_dtoh_async), decltype(&cuMemcpyDtoHAsync)>);
static_assert(kSame<decltype(DriverApi::memcpy_dtod_async), decltype(&cuMemcpyDtoDAsync)>);
static_assert(kSame<decltype(DriverApi::memset_d8_async), decltype(&cuMemsetD8Async)>);
static_assert(kSame<decltype(DriverApi::stream_create), decltype(&cuStreamCreate)>);
static_assert(kSame<decltype(DriverApi::stream_destroy), decltype(&cuStreamDestroy)>);
static_assert(kSame<decltype(DriverApi::stream_synchronize), decltype(&cuStreamSynchronize)>);
static_assert(kSame<decltype(DriverApi::event_create), decltype(&cuEventCreate)>);
static_assert(kSame<decltype(DriverApi::event_destroy), decltype(&cuEventDestroy)>);
static_assert(kSame<decltype(DriverApi::event_record), decltype(&cuEventRecord)>);
static_assert(kSame<decltype(DriverApi::event_synchronize), decltype(&cuEventSynchronize)>);
static_assert(kSame<decltype(DriverApi::module_load_data), decltype(&cuModuleLoadData)>);
static_assert(kSame<decltype(DriverApi::module_unload), decltype(&cuModuleUnload)>);
static_assert(kSame<decltype(DriverApi::module_get_function), decltype(&cuModuleGetFunction)>);
static_assert(kSame<decltype(DriverApi::func_get_attribute), decltype(&cuFuncGetAttribute)>);
static_assert(kSame<decltype(DriverApi::func_set_attribute), decltype(&cuFuncSetAttribute)>);
static_assert(kSame<decltype(DriverApi::launch_kernel), decltype(&cuLaunchKernel)>);
static_assert(kSame<decltype(DriverApi::launch_kernel_ex), decltype(&cuLaunchKernelEx)>);
static_assert(sizeof(ingot::cuda::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(ingot::cuda::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(sizeof(ingot::cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(ingot::cuda::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
#if CUDA_VERSION >= 12040
static_assert(kSame<decltype(DriverApi::func_load), decltype(&cuFuncLoad)>);
#endif

static_assert(ingot::cuda::kSuccess == CUDA_SUCCESS);
static_assert(ingot::cuda::kErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(ingot::cuda::kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(ingot::cuda::kAttributeMultiprocessorCount ==
              CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(ingot::cuda::kAttributeComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(ingot::cuda::kAttributeComputeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(ingot::cuda::kAttributeMaxSharedPerBlockOptin ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(ingot::cuda::kLaunchAttributeProgrammaticStream ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(ingot::cuda::kFunctionAttributeLocalBytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(ingot::cuda::kFunctionAttributeRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(ingot::cuda::kFunctionAttributeMaxDynamicShared ==
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(ingot::cuda::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(ingot::cuda::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);

static_assert(kSame<decltype(NvrtcApi::get_error_string), decltype(&nvrtcGetErrorString)>);
static_assert(kSame<decltype(NvrtcApi::version), decltype(&nvrtcVersion)>);
static_assert(kSame<decltype(NvrtcApi::create_program), decltype(&nvrtcCreateProgram)>);
static_assert(kSame<decltype(NvrtcApi::destroy_program), decltype(&nvrtcDestroyProgram)>);
static_assert(kSame<decltype(NvrtcApi::compile_program), decltype(&nvrtcCompileProgram)>);
static_assert(kSame<decltype(NvrtcApi::get_log_size), decltype(&nvrtcGetProgramLogSize)>);
static_assert(kSame<decltype(NvrtcApi::get_log), decltype(&nvrtcGetProgramLog)>);
static_assert(kSame<decltype(NvrtcApi::get_cubin_size), decltype(&nvrtcGetCUBINSize)>);
static_assert(kSame<decltype(NvrtcApi::get_cubin), decltype(&nvrtcGetCUBIN)>);
static_assert(
    kSame<decltype(NvrtcApi::get_num_supported_archs), decltype(&nvrtcGetNumSupportedArchs)>);
static_assert(kSame<decltype(NvrtcApi::get_supported_archs), decltype(&nvrtcGetSupportedArchs)>);

}  // namespace

TEST(Declarations, AgreeWithTheToolkitsHeaders) {
  // What is checked is checked above, while compiling.
  SUCCEED() << "CUDA " << CUDA_VERSION;
}
#else
TEST(Declarations, AgreeWithTheToolkitsHeaders) {
  GTEST_SKIP() << "no <cuda.h> and <nvrtc.h> when this was compiled";
}
#endif
