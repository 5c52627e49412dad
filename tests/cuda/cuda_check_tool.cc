// cuda_check kernels [--op NAME] [TARGET]...
//                                  compiles every kernel for each target (all of the design's)
// cuda_check ops [OPTION]...       the op driver on the first GPU, and rows alone against rows
//                                  together (options: tests/ops/op_driver.h)
// cuda_check describe              what is here
// The last line is "N passed, N failed".
#include "base/error.h"
#include "cuda/device.h"
#include "ops/ops.h"

#include <fmt/core.h>

#include "tests/cuda/kernel_check.h"
#include "tests/cuda/row_bits.h"
#include "tests/ops/op_driver.h"
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace ingot;
using namespace ingot::cuda;

int finish(int passed, int failed) {
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed > 0 || passed == 0 ? 1 : 0;
}

// Registers and static shared memory of the largest variant of each op, a column a target.
void print_table(std::span<const TargetReport> reports) {
  fmt::print("{:<16} {:>8}", "op", "variants");
  for (const TargetReport& r : reports) fmt::print(" {:>14}", r.arch);
  fmt::print("\n");
  for (std::size_t i = 0; i < reports[0].kernels.size(); ++i) {
    const KernelReport& first = reports[0].kernels[i];
    fmt::print("{:<16} {:>8}", first.op, first.variants);
    for (const TargetReport& r : reports)
      fmt::print(" {:>4} r {:>5} B", r.kernels[i].most.registers, r.kernels[i].most.shared_bytes);
    fmt::print("\n");
  }
}

int check_targets(std::vector<std::string> targets) {
  std::string only_op;
  if (targets.size() >= 2 && targets[0] == "--op") {
    only_op = op(targets[1]).name;
    targets.erase(targets.begin(), targets.begin() + 2);
  }
  if (targets.empty()) targets.assign(std::begin(kDesignTargets), std::end(kDesignTargets));
  std::vector<TargetReport> reports(targets.size());
  // Two at a time: a compile takes one core.
  for (std::size_t i = 0; i < targets.size(); i += 2) {
    std::vector<std::thread> threads;
    for (std::size_t j = i; j < std::min(i + 2, targets.size()); ++j)
      threads.emplace_back([&, j] { reports[j] = check_kernels(targets[j], only_op); });
    for (std::thread& thread : threads) thread.join();
  }
  print_table(reports);
  int compiled = 0;
  int failed = 0;
  for (const TargetReport& r : reports) {
    for (const KernelReport& k : r.kernels) compiled += k.variants;
    for (const std::string& failure : r.failures) fmt::print("FAILED {}\n", failure);
    failed += static_cast<int>(r.failures.size());
  }
  return finish(compiled, failed);
}

int check_on_gpu(const std::vector<std::string>& options) {
  const auto device = make_cuda_device(0);
  if (!options.empty()) return run_op_driver(*device, options);
  fmt::print("{}: {}\n", device->info().target, device->info().description);
  int passed = 0;
  int failed = 0;
  for (const OpOutcome& o : check_ops(*device, {})) {
    o.good() ? ++passed : ++failed;
    if (!o.good()) fmt::print("{}\n", to_string(o));
  }
  for (const std::string& failure : check_row_bits(*device)) {
    fmt::print("FAILED {}\n", failure);
    ++failed;
  }
  return finish(passed, failed);
}

int describe() {
  const CudaDescription d = describe_cuda();
  fmt::print("driver: {}\nnvrtc:  {}\n", d.driver, describe_nvrtc().text);
  for (const GpuDescription& gpu : d.gpus)
    fmt::print("cuda:{}: {}, {}, {} bytes\n", gpu.ordinal, gpu.name, gpu.target, gpu.total_memory);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const std::vector<std::string> rest(argv + std::min(argc, 2), argv + argc);
  try {
    if (verb == "kernels") return check_targets(rest);
    if (verb == "ops") return check_on_gpu(rest);
    if (verb == "describe") return describe();
    fmt::print(stderr, "usage: cuda_check kernels [TARGET]... | ops [OPTION]... | describe\n");
    return 2;
  } catch (const Error& e) {
    fmt::print("{}\n0 passed, 1 failed\n", e.message());
    return ingot::describe(e.code()).exit_code;
  }
}
