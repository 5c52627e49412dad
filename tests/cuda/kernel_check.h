#pragma once

#include "cuda/jit.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// Compiles every kernel for an architecture, with NVRTC and without a GPU.
namespace ingot::cuda {

struct KernelReport {
  std::string op;
  int variants = 0;  // different machine codes
  ResourceUse most;  // the largest of each
};

struct TargetReport {
  std::string arch;
  std::vector<KernelReport> kernels;  // one an op, sorted by name
  std::vector<std::string> failures;  // no kernel, spills, local memory, compile errors
};

// All sample cases of all ops in both compute modes; matrices in every weight format on one case
// and in a few on the others. Compiles always: a cached cubin has no assembler's report.
// `only_op`: empty for all.
TargetReport check_kernels(std::string_view arch, std::string_view only_op = {});

}  // namespace ingot::cuda
