#include "cuda/device.h"

#include "base/check.h"
#include "base/error.h"
#include "cuda/binding.h"
#include "cuda/context.h"
#include "cuda/nvrtc_api.h"
#include "cuda/weight_tiles.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ingot::cuda {
namespace {

constexpr std::int64_t kPageTokens = 32;

// INGOT_CUDA_SYNC=1 waits after each launch, so that an error names its own kernel.
bool synchronous() {
  static const bool on = [] {
    const char* value = std::getenv("INGOT_CUDA_SYNC");
    return value && *value && *value != '0';
  }();
  return on;
}

class StreamLauncher final : public Launcher {
 public:
  StreamLauncher(const Context& context, FunctionHandle function, CudaStream& stream,
                 std::string_view name)
      : context_(context), function_(function), stream_(stream), name_(name) {}

  GpuLimits limits() const override {
    return {.multiprocessors = context_.multiprocessors(), .shared_bytes = context_.shared_bytes()};
  }

 private:
  void queue(const Launch& launch, const void* params) const override {
    if (launch.grid_x == 0 || launch.grid_y == 0) return;  // no rows
    void* arguments[] = {const_cast<void*>(params)};
    stream_.set_last_kernel(name_);
    LaunchAttribute early{.id = kLaunchAttributeProgrammaticStream, .value = 1};
    const LaunchConfig config{
        .grid = {launch.grid_x, launch.grid_y, 1},
        .block = {launch.block, 1, 1},
        .shared_bytes = launch.shared,
        .stream = stream_.handle(),
        .attributes = &early,
        .attribute_count = launch.early && context_.launches_early() ? 1u : 0};
    context_.expect(context_.api().launch_kernel_ex(&config, function_, arguments, nullptr),
                    "cuLaunchKernelEx", name_);
    if (synchronous()) stream_.synchronize();
  }

  const Context& context_;
  FunctionHandle function_;
  CudaStream& stream_;
  std::string_view name_;
};

class CudaKernel final : public Kernel {
 public:
  // `context` and `function` are null for a target that is not here.
  CudaKernel(std::string name, Binding binding, std::shared_ptr<Context> context,
             FunctionHandle function)
      : name_(std::move(name)),
        workspace_bytes_(binding.workspace_bytes),
        run_(std::move(binding.run)),
        context_(std::move(context)),
        function_(function) {}

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& args) override {
    if (!context_)
      fail(ErrorCode::kDevice, "[cuda.target] {} is for a GPU that is not here", name_);
    context_->enter();
    run_(args, StreamLauncher(*context_, function_, cuda_stream(args.stream), name_));
  }

 private:
  std::string name_;
  std::size_t workspace_bytes_;
  RunFunction run_;
  std::shared_ptr<Context> context_;
  FunctionHandle function_;
};

// A weight as rows: every dimension but the last.
struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
  Matrix(const Shape& shape) {
    check(shape.rank() >= 1, "a weight has at least one dimension");
    const auto dims = shape.dims();
    const auto product = checked_product(dims.first(dims.size() - 1));
    if (!product) fail(ErrorCode::kBadInput, "[cuda.weights] {} is too large", to_string(shape));
    rows = *product;
    columns = dims.back();
  }
};

// Where linears and perhaps an embed read the matrix, and nothing else.
bool wants_tiles(const WeightFormat& format, const Shape& shape, std::span<const WeightUse> uses) {
  const auto is_matrix = [](const WeightUse& use) {
    return use.op == "linear" && use.operand == 1;
  };
  const auto reads_tiles = [&](const WeightUse& use) {
    return is_matrix(use) || (use.op == "embed" && use.operand == 1);
  };
  return shape.rank() == 2 && find_tile_format(format.name) &&
         std::ranges::any_of(uses, is_matrix) && std::ranges::all_of(uses, reads_tiles);
}

std::size_t layout_bytes(bool tiles, const WeightFormat& format, const Matrix& matrix) {
  const std::size_t bytes = weight_bytes(format, matrix.rows, matrix.columns);
  return tiles ? static_cast<std::size_t>(
                     tile_bytes(*find_tile_format(format.name), matrix.rows, matrix.columns))
               : bytes;
}

// Whether the layout is tiles. Throws Error{kBadInput} where layout or sizes are not of this
// device.
bool check_layout(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                  std::size_t rows, std::size_t packed) {
  const bool tiles =
      layout.name == kTilesLayout && shape.rank() == 2 && find_tile_format(format.name);
  if (layout.name != kRowsLayout && !tiles)
    fail(ErrorCode::kBadInput, "[cuda.weights] layout {} of {}{} is not of a CUDA device",
         layout.name, format.name, to_string(shape));
  const std::size_t row_bytes = layout_bytes(false, format, shape);
  const std::size_t bytes = layout_bytes(tiles, format, shape);
  if (rows != row_bytes || packed != bytes)
    fail(ErrorCode::kBadInput,
         "[cuda.weights] {} bytes of rows, {} of {}, wanted {} and {} for {}{}", rows, packed,
         layout.name, row_bytes, bytes, format.name, to_string(shape));
  return tiles;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(std::string arch, std::shared_ptr<Context> context, JitOptions options)
      : jit_(std::move(arch), std::move(options)), context_(std::move(context)) {}

  DeviceInfo info() const override {
    if (!context_)
      return {.target = jit_.arch(),
              .description = "GPU of architecture " + jit_.arch() + ", not here",
              .present = false};
    return {.target = jit_.arch(),
            .description = fmt::format("{}, {} multiprocessors", context_->name(),
                                       context_->multiprocessors()),
            .total_memory = context_->total_memory(),
            .free_memory = context_->free_memory()};
  }

  DType activation_dtype(ComputeMode mode) const override {
    return mode == ComputeMode::kF32 ? DType::kF32 : DType::kBF16;
  }
  DType kv_dtype(ComputeMode mode) const override { return activation_dtype(mode); }
  std::int64_t page_tokens() const override { return kPageTokens; }
  std::size_t page_bytes(const StateSpec& spec, std::int64_t tokens) const override {
    return static_cast<std::size_t>(tokens) * state_token_bytes(spec);
  }

  WeightLayout weight_layout(const WeightFormat& format, const Shape& shape,
                             std::span<const WeightUse> uses) const override {
    const bool tiles = wants_tiles(format, shape, uses);
    return {std::string(tiles ? kTilesLayout : kRowsLayout), layout_bytes(tiles, format, shape)};
  }
  void pack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                   std::span<const std::byte> rows, std::span<std::byte> packed) const override {
    const Matrix m(shape);
    if (check_layout(layout, format, shape, rows.size(), packed.size()))
      pack_tiles(format, m.rows, m.columns, rows, packed);
    else
      std::memcpy(packed.data(), rows.data(), rows.size());
  }
  void unpack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                     std::span<const std::byte> packed, std::span<std::byte> rows) const override {
    const Matrix m(shape);
    if (check_layout(layout, format, shape, rows.size(), packed.size()))
      unpack_tiles(format, m.rows, m.columns, packed, rows);
    else
      std::memcpy(rows.data(), packed.data(), rows.size());
  }

  KernelOrReason find_kernel(const OpCall& call, CodeStore& code) const override {
    const BindFunction bind = find_binding(call.op);
    if (!bind) return fmt::format("no CUDA kernel for {}", call.op);
    BindingOrReason bound = bind(call);
    if (const auto* reason = std::get_if<std::string>(&bound)) return *reason;
    auto& binding = std::get<Binding>(bound);
    const std::string& cubin = jit_.compile(binding.source, code);
    FunctionHandle function = nullptr;
    if (context_)
      function = context_->load(jit_.content_name(binding.source), cubin, binding.source.stem,
                                binding.large_shared);
    return std::make_unique<CudaKernel>(
        fmt::format("{}.{}.{}", call.op, jit_.arch(), binding.variant), std::move(binding),
        context_, function);
  }

  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return std::make_unique<CudaBuffer>(here(), bytes, purpose);
  }
  std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) override {
    return std::make_unique<PinnedBuffer>(here(), bytes, purpose);
  }
  std::unique_ptr<Buffer> place_weights(std::span<const std::byte> mapped,
                                        const std::function<void(std::size_t)>& progress) override {
    auto buffer = std::make_unique<CudaBuffer>(here(), mapped.size(), "weights");
    upload(*context_, reinterpret_cast<DevicePointer>(buffer->data()), mapped, progress);
    return buffer;
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(here()); }

  void copy_in(std::byte* device, std::span<const std::byte> host, Stream& stream) override {
    if (host.empty()) return;
    here()->enter();
    context_->expect(
        context_->api().memcpy_htod_async(reinterpret_cast<DevicePointer>(device), host.data(),
                                          host.size(), cuda_stream(&stream).handle()),
        "cuMemcpyHtoDAsync");
  }
  void copy_out(std::span<std::byte> host, const std::byte* device, Stream& stream) override {
    if (host.empty()) return;
    here()->enter();
    context_->expect(
        context_->api().memcpy_dtoh_async(host.data(), reinterpret_cast<DevicePointer>(device),
                                          host.size(), cuda_stream(&stream).handle()),
        "cuMemcpyDtoHAsync");
  }
  void copy_within(std::byte* to, const std::byte* from, std::size_t bytes,
                   Stream& stream) override {
    here()->enter();
    context_->expect(context_->api().memcpy_dtod_async(reinterpret_cast<DevicePointer>(to),
                                                       reinterpret_cast<DevicePointer>(from), bytes,
                                                       cuda_stream(&stream).handle()),
                     "cuMemcpyDtoDAsync");
  }

 private:
  const std::shared_ptr<Context>& here() const {
    if (!context_)
      fail(ErrorCode::kDevice,
           "[cuda.target] {} describes a GPU that is not here: it builds engines and runs nothing",
           jit_.arch());
    return context_;
  }

  Jit jit_;
  std::shared_ptr<Context> context_;
};

// "sm_", two or three digits, and a letter that only exact targets have.
bool is_target(std::string_view arch) {
  if (!arch.starts_with("sm_")) return false;
  arch.remove_prefix(3);
  std::size_t digits = 0;
  while (digits < arch.size() && arch[digits] >= '0' && arch[digits] <= '9') ++digits;
  if (digits < 2 || digits > 3) return false;
  const std::string_view suffix = arch.substr(digits);
  return suffix.empty() || suffix == "a" || suffix == "f";
}

struct Capability {
  int major = 0;
  int minor = 0;
};

Capability capability_of(const DriverApi& api, DeviceHandle device) {
  Capability found;
  if (api.device_get_attribute(&found.major, kAttributeComputeMajor, device) != kSuccess ||
      api.device_get_attribute(&found.minor, kAttributeComputeMinor, device) != kSuccess)
    return {};
  return found;
}

std::vector<GpuDescription> describe_gpus(const DriverApi& api) {
  std::vector<GpuDescription> gpus;
  int count = 0;
  if (api.device_get_count(&count) != kSuccess) return gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceHandle device = 0;
    if (api.device_get(&device, ordinal) != kSuccess) continue;
    std::array<char, 256> name{};
    const Capability capability = capability_of(api, device);
    GpuDescription gpu{.ordinal = ordinal, .target = target_of(capability.major, capability.minor)};
    if (api.device_get_name(name.data(), static_cast<int>(name.size()), device) == kSuccess)
      gpu.name = name.data();
    if (api.device_total_mem(&gpu.total_memory, device) != kSuccess) gpu.total_memory = 0;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int ordinal, JitOptions options) {
  auto context = std::make_shared<Context>(ordinal);
  DeviceHandle device = 0;
  context->expect(context->api().device_get(&device, ordinal), "cuDeviceGet");
  const Capability capability = capability_of(context->api(), device);
  std::string arch = target_of(capability.major, capability.minor);
  if (arch.empty())
    fail(ErrorCode::kDevice, "[cuda.device] {} has compute capability {}.{}, wanted 8.0 or later",
         context->name(), capability.major, capability.minor);
  return std::make_unique<CudaDevice>(std::move(arch), std::move(context), std::move(options));
}

std::unique_ptr<Device> make_cuda_target(std::string_view arch, JitOptions options) {
  if (!is_target(arch))
    fail(ErrorCode::kUsage, "[cuda.target] {} is no GPU target, wanted one like sm_90a", arch);
  if (arch == "sm_90")
    fail(ErrorCode::kUsage, "[cuda.target] sm_90 lacks Hopper's own instructions, wanted sm_90a");
  return std::make_unique<CudaDevice>(std::string(arch), nullptr, std::move(options));
}

CudaDescription describe_cuda() {
  CudaDescription description;
  const Result<DriverApi>& api = driver_api();
  if (api) {
    int version = 0;
    description.driver_found = api->driver_get_version(&version) == kSuccess;
    description.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
    description.gpus = describe_gpus(*api);
  } else {
    description.driver = api.error().message();
  }
  return description;
}

NvrtcDescription describe_nvrtc() {
  const Result<NvrtcApi>& nvrtc = nvrtc_api();
  if (!nvrtc) return {.text = nvrtc.error().message()};
  return {.text = fmt::format("{}.{}, {}", nvrtc->major, nvrtc->minor, nvrtc->path), .found = true};
}

}  // namespace ingot::cuda
