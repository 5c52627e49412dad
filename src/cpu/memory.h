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

// Zeroed anonymous memory, present at once (a server must not find out later), in huge pages where
// the system has them: decoding reads through all of it, and small pages would miss in the TLB.
// Throws Error{kDoesNotFit}.
std::unique_ptr<Buffer> allocate_pages(std::size_t bytes, std::string_view purpose);

}  // namespace ingot::cpu
