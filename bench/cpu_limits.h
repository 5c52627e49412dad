#pragma once

#include "cpu/limits.h"

#include <chrono>

namespace ingot::bench {

using cpu::bf16_peak;
using cpu::fma_peak;
using cpu::int8_peak;
using cpu::read_peak;
using cpu::seconds_on;

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ingot::bench
