#pragma once

#include "device/device.h"
#include "plan/plan.h"

#include <cstdint>
#include <memory>

namespace ingot {

// What most of a step's multiply-adds are made of, where the device has instructions for it.
enum class Arithmetic { kF32, kBF16, kInt8 };

// What a step of `plan` asks of a device.
struct StepWork {
  double weight_bytes = 0;        // read once, however many tokens
  double operations_a_token = 0;  // of the matrices before the head; a multiply-add is two
  double head_operations_a_row = 0;
  Arithmetic arithmetic = Arithmetic::kF32;
};
StepWork step_work(const Plan& plan);

// What a device can do at most, measured beside the work. One sample a call.
class DeviceLimits {
 public:
  virtual ~DeviceLimits() = default;
  virtual double read_bytes_per_s() = 0;
  // Of the arithmetic that the work uses; 0 where it is not known.
  virtual double operations_per_s(const StepWork& work) = 0;
};
// Null where Ingot cannot measure them (a GPU).
std::unique_ptr<DeviceLimits> make_device_limits(const Device& device, int threads);

}  // namespace ingot
