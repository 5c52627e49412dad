#pragma once

#include "device/device.h"

#include <memory>
#include <string>

namespace ingot {

struct CpuOptions {
  int threads = 0;  // 0: usable_cpus()
  int workers = 0;  // that pack weights; 0: as many as run
  // Memory is taken from the system when it is allocated: a server must not find out later. False:
  // when it is first touched, so that a short answer does not wait for a long context's pages.
  bool present = true;
  std::string tier;  // the instruction tier, by name, as far as there is one; empty: the fastest
};

// The processor as a device: activations in f32, KV cache in bf16 (f32 in ComputeMode::kF32),
// weights read where the engine is mapped. Throws Error{kUsage} for an unknown tier.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options = {});

}  // namespace ingot
