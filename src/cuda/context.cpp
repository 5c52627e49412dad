#include "cuda/context.h"

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace ingot::cuda {
namespace {

DriverApi driver_or_throw() {
  const Result<DriverApi>& api = driver_api();
  if (!api) throw api.error();
  return *api;
}

}  // namespace

std::string target_of(int major, int minor) {
  if (major < 8) return {};
  // Hopper and the data-centre Blackwells have instructions that only the exact target has.
  const bool exact = major == 9 || major == 10 || major == 11;
  return fmt::format("sm_{}{}{}", major, minor, exact ? "a" : "");
}

Context::Context(int ordinal) : api_(driver_or_throw()) {
  int count = 0;
  name_ = fmt::format("cuda:{}", ordinal);
  expect(api_.device_get_count(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    fail(ErrorCode::kDevice, "[cuda.device] no GPU cuda:{}, {} here", ordinal, count);
  expect(api_.device_get(&device_, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  expect(api_.device_get_name(name.data(), static_cast<int>(name.size()), device_),
         "cuDeviceGetName");
  name_ = fmt::format("{} (cuda:{})", name.data(), ordinal);
  expect(api_.device_get_attribute(&multiprocessors_, kAttributeMultiprocessorCount, device_),
         "cuDeviceGetAttribute");
  expect(api_.device_get_attribute(&shared_bytes_, kAttributeMaxSharedPerBlockOptin, device_),
         "cuDeviceGetAttribute");
  int major = 0;
  expect(api_.device_get_attribute(&major, kAttributeComputeMajor, device_),
         "cuDeviceGetAttribute");
  launches_early_ = major >= 9;
  expect(api_.device_total_mem(&total_memory_, device_), "cuDeviceTotalMem");
  expect(api_.primary_ctx_retain(&handle_, device_), "cuDevicePrimaryCtxRetain");
  try {
    enter();
    expect(api_.stream_create(&own_stream_, kStreamNonBlocking), "cuStreamCreate");
  } catch (...) {
    api_.primary_ctx_release(device_);
    throw;
  }
}

Context::~Context() {
  api_.ctx_set_current(handle_);
  for (const auto& [name, module] : modules_) api_.module_unload(module);
  api_.stream_destroy(own_stream_);
  api_.primary_ctx_release(device_);
}

void Context::enter() const {
  expect(api_.ctx_set_current(handle_), "cuCtxSetCurrent");
}

void Context::expect(Status status, std::string_view call, std::string_view what) const {
  if (status == kSuccess) [[likely]]
    return;
  fail(ErrorCode::kDevice, "[cuda.{}] {}{}on {}: {}", call, what, what.empty() ? "" : " ", name_,
       describe_status(api_, status));
}

std::size_t Context::free_memory() const {
  enter();
  std::size_t free = 0;
  std::size_t total = 0;
  expect(api_.mem_get_info(&free, &total), "cuMemGetInfo");
  return free;
}

DevicePointer Context::allocate(std::size_t bytes, std::string_view purpose) {
  enter();
  DevicePointer address = 0;
  // The driver refuses zero bytes.
  const std::size_t asked = std::max<std::size_t>(bytes, 1);
  const Status status = api_.mem_alloc(&address, asked);
  if (status == kErrorOutOfMemory)
    fail(ErrorCode::kDoesNotFit,
         "[cuda.allocate] {} bytes for {} do not fit on {}: {} of {} free, {} in use by this "
         "process's models",
         bytes, purpose, name_, free_memory(), total_memory_, allocated_.load());
  expect(status, "cuMemAlloc", purpose);
  try {
    expect(api_.memset_d8_async(address, 0, asked, own_stream_), "cuMemsetD8Async", purpose);
    expect(api_.stream_synchronize(own_stream_), "cuStreamSynchronize", purpose);
  } catch (...) {
    api_.mem_free(address);
    throw;
  }
  allocated_ += bytes;
  return address;
}

void Context::release(DevicePointer address, std::size_t bytes) {
  allocated_ -= bytes;
  if (api_.ctx_set_current(handle_) == kSuccess) api_.mem_free(address);
}

FunctionHandle Context::load(const std::string& content_name, const std::string& cubin,
                             const std::string& function, bool large_shared) {
  enter();
  const std::lock_guard lock(mutex_);
  auto it = modules_.find(content_name);
  if (it == modules_.end()) {
    ModuleHandle module = nullptr;
    expect(api_.module_load_data(&module, cubin.data()), "cuModuleLoadData", content_name);
    it = modules_.emplace(content_name, module).first;
  }
  FunctionHandle handle = nullptr;
  expect(api_.module_get_function(&handle, it->second, function.c_str()), "cuModuleGetFunction",
         content_name);
  // Not at the first launch: that would allocate on the device while serving.
  if (api_.func_load) expect(api_.func_load(handle), "cuFuncLoad", content_name);
  if (large_shared)
    expect(api_.func_set_attribute(handle, kFunctionAttributeMaxDynamicShared, shared_bytes_),
           "cuFuncSetAttribute", content_name);
  return handle;
}

CudaBuffer::CudaBuffer(std::shared_ptr<Context> context, std::size_t bytes,
                       std::string_view purpose)
    : context_(std::move(context)), bytes_(bytes), address_(context_->allocate(bytes, purpose)) {}

CudaBuffer::~CudaBuffer() {
  context_->release(address_, bytes_);
}

PinnedBuffer::PinnedBuffer(std::shared_ptr<Context> context, std::size_t bytes,
                           std::string_view purpose)
    : context_(std::move(context)), bytes_(bytes) {
  context_->enter();
  void* memory = nullptr;
  if (context_->api().mem_host_alloc(&memory, std::max<std::size_t>(bytes, 1), 0) != kSuccess)
    fail(ErrorCode::kDoesNotFit, "[cuda.memory] {} bytes of host memory for {}: there are none",
         bytes, purpose);
  data_ = static_cast<std::byte*>(memory);
  std::memset(data_, 0, bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (context_->api().mem_free_host(data_) != kSuccess)
    log_warning("[cuda.cuMemFreeHost] failed on {}", context_->name());
}

CudaStream::CudaStream(std::shared_ptr<Context> context) : context_(std::move(context)) {
  context_->enter();
  context_->expect(context_->api().stream_create(&handle_, kStreamNonBlocking), "cuStreamCreate");
}

CudaStream::~CudaStream() {
  if (context_->api().stream_destroy(handle_) != kSuccess)
    log_warning("[cuda.cuStreamDestroy] failed on {}", context_->name());
}

void CudaStream::synchronize() {
  context_->enter();
  const Status status = context_->api().stream_synchronize(handle_);
  if (status == kSuccess) return;
  context_->expect(
      status, "cuStreamSynchronize",
      last_kernel_.empty() ? std::string() : fmt::format("after launching {}", last_kernel_));
}

CudaStream& cuda_stream(Stream* stream) {
  auto* own = dynamic_cast<CudaStream*>(stream);
  check(own != nullptr, "a CUDA call needs a CUDA stream");
  return *own;
}

namespace {

// Two pinned buffers in turn, freed whatever happens.
class Staging {
 public:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;

  explicit Staging(Context& context) : context_(context) {
    for (Slot& slot : slots_) {
      context_.expect(context_.api().mem_host_alloc(&slot.memory, kBytes, 0), "cuMemHostAlloc");
      context_.expect(context_.api().event_create(&slot.done, kEventDisableTiming),
                      "cuEventCreate");
    }
    context_.expect(context_.api().stream_create(&stream_, kStreamNonBlocking), "cuStreamCreate");
  }
  ~Staging() {
    const DriverApi& api = context_.api();
    if (stream_) {
      api.stream_synchronize(stream_);
      api.stream_destroy(stream_);
    }
    for (const Slot& slot : slots_) {
      if (slot.done) api.event_destroy(slot.done);
      if (slot.memory) api.mem_free_host(slot.memory);
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void copy(DevicePointer to, std::span<const std::byte> chunk) {
    Slot& slot = slots_[next_++ % slots_.size()];
    if (slot.used)
      context_.expect(context_.api().event_synchronize(slot.done), "cuEventSynchronize", "weights");
    std::memcpy(slot.memory, chunk.data(), chunk.size());
    context_.expect(context_.api().memcpy_htod_async(to, slot.memory, chunk.size(), stream_),
                    "cuMemcpyHtoDAsync", "weights");
    context_.expect(context_.api().event_record(slot.done, stream_), "cuEventRecord");
    slot.used = true;
  }
  void finish() {
    context_.expect(context_.api().stream_synchronize(stream_), "cuStreamSynchronize", "weights");
  }

 private:
  struct Slot {
    void* memory = nullptr;
    EventHandle done = nullptr;
    bool used = false;
  };
  Context& context_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
  StreamHandle stream_ = nullptr;
};

}  // namespace

void upload(Context& context, DevicePointer address, std::span<const std::byte> mapped,
            const std::function<void(std::size_t)>& progress) {
  context.enter();
  Staging staging(context);
  for (std::size_t done = 0; done < mapped.size();) {
    const std::size_t chunk = std::min(Staging::kBytes, mapped.size() - done);
    staging.copy(address + done, mapped.subspan(done, chunk));
    done += chunk;
    if (progress) progress(done);
  }
  staging.finish();
}

}  // namespace ingot::cuda
