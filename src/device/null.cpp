#include "base/error.h"
#include "device/device.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ingot {

namespace {

constexpr std::align_val_t kAlignment{256};

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment))),
        bytes_(bytes) {
    std::memset(data_, 0, bytes);
  }
  ~HostBuffer() override { ::operator delete(data_, kAlignment); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

// The mapping itself.
class BorrowedBuffer final : public Buffer {
 public:
  explicit BorrowedBuffer(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::byte* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  std::size_t bytes() const override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

class NullStream final : public Stream {
 public:
  void synchronize() override {}
};

class NullKernel final : public Kernel {
 public:
  explicit NullKernel(std::string_view op) : name_(std::string(op) + ".null") {}
  std::string_view name() const override { return name_; }
  void run(const KernelArgs&) override {}

 private:
  std::string name_;
};

std::size_t row_major_bytes(const WeightFormat& format, const Shape& shape) {
  return shape.rank() == 2 ? weight_bytes(format, shape[0], shape[1])
                           : weight_bytes(format, 1, shape.elements());
}

class NullDevice final : public Device {
 public:
  DeviceInfo info() const override {
    return {.target = "null",
            .description = "computes nothing",
            .total_memory = SIZE_MAX,
            .free_memory = SIZE_MAX};
  }
  DType activation_dtype(ComputeMode mode) const override {
    return mode == ComputeMode::kF32 ? DType::kF32 : DType::kBF16;
  }
  DType kv_dtype(ComputeMode mode) const override { return activation_dtype(mode); }
  std::int64_t page_tokens() const override { return 32; }
  std::size_t page_bytes(const StateSpec& spec, std::int64_t tokens) const override {
    return static_cast<std::size_t>(tokens) * state_token_bytes(spec);
  }
  WeightLayout weight_layout(const WeightFormat& format, const Shape& shape,
                             std::span<const WeightUse>) const override {
    return {.name = "row_major", .bytes = row_major_bytes(format, shape)};
  }
  void pack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                   std::span<const std::byte> rows, std::span<std::byte> packed) const override {
    copy_rows(layout, row_major_bytes(format, shape), rows, packed);
  }
  void unpack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                     std::span<const std::byte> packed, std::span<std::byte> rows) const override {
    copy_rows(layout, row_major_bytes(format, shape), packed, rows);
  }
  KernelOrReason find_kernel(const OpCall& call, CodeStore&) const override {
    return std::make_unique<NullKernel>(call.op);
  }

  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view) override {
    return std::make_unique<HostBuffer>(bytes);
  }
  std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view) override {
    return std::make_unique<HostBuffer>(bytes);
  }
  std::unique_ptr<Buffer> place_weights(std::span<const std::byte> mapped,
                                        const std::function<void(std::size_t)>& progress) override {
    if (progress) progress(mapped.size());
    return std::make_unique<BorrowedBuffer>(mapped);
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<NullStream>(); }
  void copy_in(std::byte* device, std::span<const std::byte> host, Stream&) override {
    if (!host.empty()) std::memcpy(device, host.data(), host.size());
  }
  void copy_out(std::span<std::byte> host, const std::byte* device, Stream&) override {
    if (!host.empty()) std::memcpy(host.data(), device, host.size());
  }
  void copy_within(std::byte* to, const std::byte* from, std::size_t bytes, Stream&) override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void copy_rows(const WeightLayout& layout, std::size_t bytes,
                        std::span<const std::byte> from, std::span<std::byte> to) {
    if (layout.name != "row_major" || from.size() != bytes || to.size() != bytes)
      fail(ErrorCode::kBadInput,
           "[device.null] layout {} of {} to {} bytes, wanted row_major of {}", layout.name,
           from.size(), to.size(), bytes);
    std::copy(from.begin(), from.end(), to.begin());
  }
};

}  // namespace

std::unique_ptr<Device> make_null_device() {
  return std::make_unique<NullDevice>();
}

}  // namespace ingot
