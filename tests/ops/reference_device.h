#pragma once

#include "device/device.h"

#include <memory>

namespace ingot {

// A device of ordinary memory whose kernels are the ops' references: f32 activations in kF32, bf16
// in kNative; row-major weights; pages of `page_tokens` tokens, each K then V, [token][head][dim].
// For tests of what stands above devices, and of the op driver itself.
std::unique_ptr<Device> make_reference_device(std::int64_t page_tokens = 32);

}  // namespace ingot
