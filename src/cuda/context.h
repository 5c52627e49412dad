#pragma once

#include "cuda/driver_api.h"
#include "device/device.h"

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace ingot::cuda {

// One GPU in use: its primary context, its loaded code and the books of its memory. Buffers,
// streams and kernels share it, so that it outlives them.
class Context {
 public:
  // Throws Error{kDevice}: no driver, no such GPU.
  explicit Context(int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const DriverApi& api() const { return api_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200 (cuda:0)"
  int multiprocessors() const { return multiprocessors_; }
  // Of a block, where its kernel was loaded for it.
  int shared_bytes() const { return shared_bytes_; }
  // Whether a kernel may begin before the one ahead of it ends (programmatic dependent launch).
  bool launches_early() const { return launches_early_; }
  std::size_t total_memory() const { return total_memory_; }
  std::size_t free_memory() const;
  // What allocate() has handed out and not got back, to the byte asked for.
  std::size_t allocated_bytes() const { return allocated_; }

  // Makes this the calling thread's context; every use of the device begins with it.
  void enter() const;
  // Throws Error{kDevice} "[cuda.<call>] what on <GPU>: CUDA_ERROR_...".
  void expect(Status status, std::string_view call, std::string_view what = {}) const;

  // Zeroed. Throws Error{kDoesNotFit} with the numbers.
  DevicePointer allocate(std::size_t bytes, std::string_view purpose);
  void release(DevicePointer address, std::size_t bytes);

  // The function of a cubin, loaded once by its content name; with `large_shared` it may be
  // launched with shared_bytes() of dynamic shared memory.
  FunctionHandle load(const std::string& content_name, const std::string& cubin,
                      const std::string& function, bool large_shared);

 private:
  DriverApi api_;
  DeviceHandle device_ = 0;
  ContextHandle handle_ = nullptr;
  StreamHandle own_stream_ = nullptr;  // zeroing
  std::string name_;
  int multiprocessors_ = 0;
  int shared_bytes_ = 0;
  bool launches_early_ = false;
  std::size_t total_memory_ = 0;
  std::atomic<std::size_t> allocated_ = 0;
  std::mutex mutex_;  // of modules_
  std::map<std::string, ModuleHandle> modules_;
};

// Compute capability 9.0 to "sm_90a": the exact target where its own instructions need it. Empty
// before 8.0, which Ingot does not support.
std::string target_of(int major, int minor);

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::shared_ptr<Context> context, std::size_t bytes, std::string_view purpose);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  std::byte* data() const override { return reinterpret_cast<std::byte*>(address_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::shared_ptr<Context> context_;
  std::size_t bytes_;
  DevicePointer address_ = 0;
};

// Memory of the host that the device reads and writes directly. Zeroed.
class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(std::shared_ptr<Context> context, std::size_t bytes, std::string_view purpose);
  ~PinnedBuffer() override;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::shared_ptr<Context> context_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(std::shared_ptr<Context> context);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void synchronize() override;
  StreamHandle handle() const { return handle_; }
  // Named when the device reports an error of something queued before.
  void set_last_kernel(std::string_view name) { last_kernel_ = name; }

 private:
  std::shared_ptr<Context> context_;
  StreamHandle handle_ = nullptr;
  std::string_view last_kernel_;
};

// The stream as a CudaStream; passing another device's is a bug.
CudaStream& cuda_stream(Stream* stream);

// Copies `mapped` to `address` through pinned staging memory, so that reading a file and copying
// overlap. `progress` gets the bytes queued so far.
void upload(Context& context, DevicePointer address, std::span<const std::byte> mapped,
            const std::function<void(std::size_t)>& progress);

}  // namespace ingot::cuda
