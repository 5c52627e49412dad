#pragma once

#include "device/device.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ingot::cpu {

struct MemoryInfo {
  std::size_t total = 0;  // of the machine, or the control group's limit if that is less
  std::size_t free = 0;   // what could be had without swapping
};

// Read below `root` ("/" but for tests).
MemoryInfo memory_info(const std::string& root = "/");

// Zeroed anonymous memory in huge pages where the system has them: decoding reads through all of
// it, and small pages would miss in the TLB. Takes `bytes`, rounded up to small pages. `present`:
// taken from the system at once, not at the first touch. Throws Error{kDoesNotFit}.
std::unique_ptr<Buffer> allocate_pages(std::size_t bytes, std::string_view purpose,
                                       bool present = true);

}  // namespace ingot::cpu
