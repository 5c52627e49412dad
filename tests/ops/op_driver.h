#pragma once

#include "device/device.h"
#include "ir/op_def.h"

#include <string>
#include <string_view>
#include <vector>

// The one driver that checks, and times, every op on every device: all sample cases of ops/, in
// every compute mode of the device, with every weight format of quant/ for the ops that take a
// matrix.
//
// In a device's test (including this header links the driver):
//   for (const OpOutcome& o : check_ops(*device, {})) EXPECT_TRUE(o.good()) << to_string(o);
// As a tool (prints a line a case and "N passed, N failed", returns the exit code):
//   int main(int argc, char** argv) { return run_op_driver(*device, {argv + 1, argv + argc}); }
//   --op NAME --case NAME --format NAME --mode native|f32   only these
//   --bench                                                 time the large cases instead
//   --verbose                                               a line for each case, not failures only
//
// What a device must offer: page_tokens() of 16 or more, kv_append for any state that a case has
// (states are filled and read back through kv_append and attention), and for each op a kernel or a
// reason, which is reported as a missing kernel.
namespace ingot {

struct OpCheckOptions {
  std::vector<ComputeMode> modes = {ComputeMode::kNative, ComputeMode::kF32};
  // Empty: all.
  std::string only_op;
  std::string only_case;
  std::string only_format;
};

enum class OpStatus : std::uint8_t { kPassed, kFailed, kMissing };

struct OpOutcome {
  std::string name;    // "linear/decode/q4_1/native"
  std::string kernel;  // the kernel's own name
  OpStatus status = OpStatus::kFailed;
  std::string detail;    // what differs, or the reason why there is no kernel
  double max_error = 0;  // largest |got - wanted|, in units of the result's rms
  double rms_error = 0;
  bool good() const { return status == OpStatus::kPassed; }
};
std::string to_string(const OpOutcome& outcome);

// Never throws for a kernel that misbehaves by throwing: that is a failed outcome.
std::vector<OpOutcome> check_ops(Device& device, const OpCheckOptions& options);

struct OpTiming {
  std::string name;
  std::string kernel;  // or the reason why there is none
  double seconds = 0;  // median of repeated calls; 0 without a kernel
  double bytes = 0;    // operands, results and the part of the state that is read or written
  double flops = 0;    // multiplications and additions of matrices; 0 for others
};
std::string to_string(const OpTiming& timing);

// Larger cases with the shapes of real models, timed.
std::vector<OpTiming> bench_ops(Device& device, const OpCheckOptions& options);

int run_op_driver(Device& device, const std::vector<std::string>& arguments);

}  // namespace ingot
