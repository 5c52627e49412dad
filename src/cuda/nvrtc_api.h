#pragma once

#include "base/result.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

// NVRTC, NVIDIA's run-time compiler, loaded with dlopen.
namespace ingot::cuda {

using NvrtcStatus = int;                       // nvrtcResult; 0 is success
using NvrtcProgram = struct NvrtcProgramTag*;  // nvrtcProgram

struct NvrtcApi {
  const char* (*get_error_string)(NvrtcStatus);
  NvrtcStatus (*version)(int*, int*);
  NvrtcStatus (*create_program)(NvrtcProgram*, const char*, const char*, int, const char* const*,
                                const char* const*);
  NvrtcStatus (*destroy_program)(NvrtcProgram*);
  NvrtcStatus (*compile_program)(NvrtcProgram, int, const char* const*);
  NvrtcStatus (*get_log_size)(NvrtcProgram, std::size_t*);
  NvrtcStatus (*get_log)(NvrtcProgram, char*);
  NvrtcStatus (*get_cubin_size)(NvrtcProgram, std::size_t*);
  NvrtcStatus (*get_cubin)(NvrtcProgram, char*);
  NvrtcStatus (*get_num_supported_archs)(int*);
  NvrtcStatus (*get_supported_archs)(int*);

  std::string path;  // what was opened
  int major = 0;
  int minor = 0;
};

// Where NVRTC is looked for, in order: INGOT_CUDA_PATH (a toolkit, a wheel's folder or the
// library's own folder), the loader's path (bare names), the site-packages of the Python in use
// (nvidia-cuda-nvrtc wheels), /usr/local/cuda. Only the bare names may not exist.
std::vector<std::string> nvrtc_candidates();

// Opens one library. Error: what dlopen says, or which function it lacks.
Result<NvrtcApi> open_nvrtc(const std::string& library);
// The first candidate that opens. The error names the command that brings NVRTC.
Result<NvrtcApi> find_nvrtc(const std::vector<std::string>& candidates);

// The process's NVRTC, looked for once.
const Result<NvrtcApi>& nvrtc_api();

}  // namespace ingot::cuda
