#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// The device code that travels in this binary: cuda/kernels/*.cu and cuda/device/*.cuh as text.
namespace ingot::cuda {

struct DeviceSource {
  std::string_view name;  // as an #include names it: "cuda/device/float.cuh"
  std::string_view text;
};

// All of them, sorted by name.
std::span<const DeviceSource> device_sources();
// Null when there is no such source.
const DeviceSource* find_device_source(std::string_view name);

// What compiling `name` may read: the source itself first, then every file it includes, by name,
// and those that `included` names.
std::vector<const DeviceSource*> source_closure(std::string_view name,
                                                std::span<const std::string> included);

}  // namespace ingot::cuda
