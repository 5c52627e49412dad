#pragma once

#include "cuda/device/launch.cuh"
#include "cuda/jit.h"
#include "device/kernel.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What kernels/<stem>.cpp says about an op: how its call becomes defines of kernels/<stem>.cu, and
// how a run becomes launches of it.
namespace ingot::cuda {

// What a launch may use of the GPU at hand.
struct GpuLimits {
  int multiprocessors = 0;
  int shared_bytes = 0;  // dynamic shared memory of a block
};

// Queues launches of one compiled kernel. The parameter struct is the kernel's, defined once in its
// .cu file for host and device.
class Launcher {
 public:
  virtual ~Launcher() = default;
  template <typename Params>
  void operator()(const Launch& launch, const Params& params) const {
    queue(launch, &params);
  }
  virtual GpuLimits limits() const = 0;

 private:
  virtual void queue(const Launch& launch, const void* params) const = 0;
};

using RunFunction = std::function<void(const KernelArgs&, const Launcher&)>;

struct Binding {
  KernelSource source;
  std::string variant;  // for the kernel's name: "bf16.q4_1"
  std::size_t workspace_bytes = 0;
  bool large_shared = false;  // launches ask for dynamic shared memory
  RunFunction run;
};
using BindingOrReason = std::variant<Binding, std::string>;
using BindFunction = BindingOrReason (*)(const OpCall& call);

// The kernel of an op; null when there is none.
BindFunction find_binding(std::string_view op);
// Stems of kernels/*.cu, sorted.
std::vector<std::string_view> kernel_stems();

// Canonical rows as they are: the layout of every weight that is not in tiles (weight_tiles.h).
// Kernels read each format's own blocks, so nothing is rounded and repacking for another device
// loses nothing.
inline constexpr std::string_view kRowsLayout = "cuda_rows";

// Collects the defines of one call and the first reason against it.
class Binder {
 public:
  Binder(std::string stem, const OpCall& call);

  void require(bool condition, std::string reason);
  void number(std::string name, std::int64_t value);
  // The element type of an activation or result: f32, f16 or bf16.
  void type(std::string name, DType dtype);
  // That of a state: also i8 or e4m3, with scales (device/kv_row.cuh).
  void state(std::string name, DType dtype);
  // A [rows, K] weight: in rows in any format that device/weight_<format>.cuh reads, or in tiles.
  // Defines what device/weight.cuh wants but WIDTH and WEIGHT_ROWS.
  void weight(std::size_t operand);
  bool in_tiles(std::size_t operand) const;
  // A vector of f32 (norm weights, biases, frequencies).
  void vector(std::size_t operand);

  // Memory of a run for itself.
  void workspace(std::size_t bytes) { binding_.workspace_bytes = bytes; }
  void large_shared() { binding_.large_shared = true; }

  BindingOrReason finish(RunFunction run);

 private:
  const OpCall& call_;
  Binding binding_;
  std::string reason_;
};

// The last dimension, which is always a number.
std::int64_t columns_of(const ValueType& type);
std::int64_t elements_at(const ValueType& type, const DimValues& dims);

// Addresses as kernels take them.
template <typename T = void>
const T* input(const KernelArgs& args, std::size_t operand) {
  return reinterpret_cast<const T*>(args.operands[operand]);
}
inline void* output(const KernelArgs& args, std::size_t result) {
  return args.results[result];
}

// Kernels load 16 bytes at once where rows allow it.
void check_aligned(const void* address);

}  // namespace ingot::cuda
