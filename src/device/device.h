#pragma once

#include "device/kernel.h"
#include "ir/type.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ingot {

// Memory of a device. `data` is an address in the device's space (ordinary memory on the CPU).
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

// An ordered queue of work. On the CPU calls return when the work is done.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for everything queued; throws Error{kDevice} of any of it.
  virtual void synchronize() = 0;
};

// How a weight lies in the device's memory. The name is stored in the engine ("row_major",
// "cpu_panel32", ...).
struct WeightLayout {
  std::string name;
  std::size_t bytes = 0;
};

// One use of a weight: which op reads it as which operand.
struct WeightUse {
  std::string_view op;
  int operand = 0;
};

struct DeviceInfo {
  std::string target;       // what an engine is built for: "cpu", "sm_90a"
  std::string description;  // for people: model, tier, clock
  std::size_t total_memory = 0;
  std::size_t free_memory = 0;
  bool present = true;  // false: describes a target that is not here; builds engines, runs nothing
};

// Everything that knows a kind of hardware. Never named by passes or the runtime other than through
// this interface. Thread safety: const methods may be called from any thread; one thread at a time
// runs kernels.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;

  // What the compiler asks.

  // Element type of activations and of the KV cache in `mode` unless the user chooses another.
  virtual DType activation_dtype(ComputeMode mode) const = 0;
  virtual DType kv_dtype(ComputeMode mode) const = 0;
  // Tokens of a KV page.
  virtual std::int64_t page_tokens() const = 0;
  // Bytes of one page (K and V, scales included) of one layer's state.
  virtual std::size_t page_bytes(const StateSpec& spec, std::int64_t tokens) const = 0;
  // The best layout for a weight that these ops read.
  virtual WeightLayout weight_layout(const WeightFormat& format, const Shape& shape,
                                     std::span<const WeightUse> uses) const = 0;
  // Canonical rows to the layout and back, without loss. Both throw Error{kBadInput} for a layout
  // of another device.
  virtual void pack_weight(const WeightLayout& layout, const WeightFormat& format,
                           const Shape& shape, std::span<const std::byte> rows,
                           std::span<std::byte> packed) const = 0;
  virtual void unpack_weight(const WeightLayout& layout, const WeightFormat& format,
                             const Shape& shape, std::span<const std::byte> packed,
                             std::span<std::byte> rows) const = 0;
  // A kernel for the call, or the reason why not: "head_dim 80 is not a multiple of 64".
  virtual KernelOrReason find_kernel(const OpCall& call, CodeStore& code) const = 0;

  // What the runtime asks.

  // Zeroed memory, aligned to 256 bytes or more. Throws Error{kDoesNotFit} with the numbers.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  // Memory of the host that copies to and from the device are fast with.
  virtual std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) = 0;
  // Weights in place: on the CPU the mapping itself (no copy), on a GPU a copy with progress (bytes
  // done). `mapped` outlives it.
  virtual std::unique_ptr<Buffer> place_weights(
      std::span<const std::byte> mapped, const std::function<void(std::size_t)>& progress) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual void copy_in(std::byte* device, std::span<const std::byte> host, Stream& stream) = 0;
  virtual void copy_out(std::span<std::byte> host, const std::byte* device, Stream& stream) = 0;
  // Within the device; the two do not overlap.
  virtual void copy_within(std::byte* to, const std::byte* from, std::size_t bytes,
                           Stream& stream) = 0;
};

// A device that computes nothing and has any amount of memory: for tests of everything above it.
std::unique_ptr<Device> make_null_device();

}  // namespace ingot
