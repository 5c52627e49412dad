#include "cpu/device.h"

#include "base/check.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/description.h"
#include "cpu/kernel_maker.h"
#include "cpu/kv_layout.h"
#include "cpu/memory.h"
#include "cpu/packed_weight.h"
#include "cpu/reference_kernel.h"
#include "cpu/weight_place.h"

#include <algorithm>
#include <cstring>

namespace ingot {

namespace cpu {
namespace {

// Memory that belongs to an engine's mapping.
class MappedBuffer final : public Buffer {
 public:
  explicit MappedBuffer(std::span<const std::byte> mapped) : mapped_(mapped) {}
  // Kernels only read weights.
  std::byte* data() const override { return const_cast<std::byte*>(mapped_.data()); }
  std::size_t bytes() const override { return mapped_.size(); }

 private:
  std::span<const std::byte> mapped_;
};

// Kernels have finished when run() returns.
class CpuStream final : public Stream {
 public:
  void synchronize() override {}
};

// Rows and columns of a weight of any rank.
struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
};

Matrix matrix_of(const Shape& shape) {
  const std::int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  return {rows, columns};
}

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, int workers, Tier tier, bool present)
      : tier_(tier),
        present_(present),
        workers_(workers),
        pool_(threads),
        context_{pool_, tier, row_kernels(tier)} {}

  DeviceInfo info() const override {
    const MemoryInfo memory = memory_info();
    const CpuDescription cpu = describe_cpu();
    return {.target = "cpu",
            .description = fmt::format("{}, {}, {} thread{}", cpu.model, tier_name(tier_),
                                       pool_.size(), pool_.size() == 1 ? "" : "s"),
            .total_memory = memory.total,
            .free_memory = memory.free};
  }

  DType activation_dtype(ComputeMode) const override { return DType::kF32; }
  DType kv_dtype(ComputeMode mode) const override {
    return mode == ComputeMode::kF32 ? DType::kF32 : DType::kBF16;
  }
  std::int64_t page_tokens() const override { return kKeyBlock; }
  std::size_t page_bytes(const StateSpec& spec, std::int64_t tokens) const override {
    return static_cast<std::size_t>(kv_layout(spec, tokens).page_bytes());
  }

  WeightLayout weight_layout(const WeightFormat& format, const Shape& shape,
                             std::span<const WeightUse> uses) const override;
  void pack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                   std::span<const std::byte> rows, std::span<std::byte> packed) const override;
  void unpack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                     std::span<const std::byte> packed, std::span<std::byte> rows) const override;
  KernelOrReason find_kernel(const OpCall& call, CodeStore& code) const override;

  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return allocate_pages(bytes, purpose, present_);
  }
  std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) override {
    return allocate(bytes, purpose);
  }
  std::unique_ptr<Buffer> place_weights(std::span<const std::byte> mapped,
                                        const std::function<void(std::size_t)>& progress) override {
    if (progress) progress(mapped.size());
    return std::make_unique<MappedBuffer>(mapped);
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(); }
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
  // Checks the layout's name and the sizes; null for rows as they are.
  const PackedFormat* panels_of(const WeightLayout& layout, const WeightFormat& format,
                                const Shape& shape, std::size_t rows, std::size_t packed) const;

  Tier tier_;
  bool present_;
  int workers_;
  mutable ThreadPool pool_;
  KernelContext context_;
};

// A table that only embed reads stays in rows: gathering from panels touches a cache line for every
// four bytes.
WeightLayout CpuDevice::weight_layout(const WeightFormat& format, const Shape& shape,
                                      std::span<const WeightUse> uses) const {
  const Matrix m = matrix_of(shape);
  const PackedFormat* panels = shape.rank() == 2 ? find_packed_format(format.name) : nullptr;
  const auto is_matrix = [](const WeightUse& use) {
    return use.op == "linear" && use.operand == 1;
  };
  const auto reads_panels = [&](const WeightUse& use) {
    return is_matrix(use) || (use.op == "embed" && use.operand == 1);
  };
  if (panels && std::any_of(uses.begin(), uses.end(), is_matrix) &&
      std::all_of(uses.begin(), uses.end(), reads_panels))
    return {std::string(kPanelLayout), packed_bytes(*panels, m.rows, m.columns)};
  return {std::string(kRowLayout), weight_bytes(format, m.rows, m.columns)};
}

const PackedFormat* CpuDevice::panels_of(const WeightLayout& layout, const WeightFormat& format,
                                         const Shape& shape, std::size_t rows,
                                         std::size_t packed) const {
  const Matrix m = matrix_of(shape);
  const PackedFormat* panels =
      layout.name == kPanelLayout ? find_packed_format(format.name) : nullptr;
  if (layout.name != kRowLayout && !panels)
    fail(ErrorCode::kBadInput, "[cpu.weights] layout {} of {} weights is none of the CPU's",
         layout.name, format.name);
  const std::size_t row_bytes = weight_bytes(format, m.rows, m.columns);
  const std::size_t bytes = panels ? packed_bytes(*panels, m.rows, m.columns) : row_bytes;
  if (rows != row_bytes || packed != bytes || layout.bytes != bytes)
    fail(ErrorCode::kBadInput, "[cpu.weights] {} bytes of rows, {} of {}, wanted {} and {}", rows,
         packed, layout.name, row_bytes, bytes);
  return panels;
}

void CpuDevice::pack_weight(const WeightLayout& layout, const WeightFormat& format,
                            const Shape& shape, std::span<const std::byte> rows,
                            std::span<std::byte> packed) const {
  const PackedFormat* panels = panels_of(layout, format, shape, rows.size(), packed.size());
  if (!panels) {
    std::memcpy(packed.data(), rows.data(), rows.size());
    return;
  }
  // Not the device's pool: that one belongs to the thread that runs kernels.
  ThreadPool threads(workers_);
  const Matrix m = matrix_of(shape);
  pack_rows(threads, *panels, m.rows, m.columns, rows.data(), packed.data());
}

void CpuDevice::unpack_weight(const WeightLayout& layout, const WeightFormat& format,
                              const Shape& shape, std::span<const std::byte> packed,
                              std::span<std::byte> rows) const {
  const PackedFormat* panels = panels_of(layout, format, shape, rows.size(), packed.size());
  if (!panels) {
    std::memcpy(rows.data(), packed.data(), rows.size());
    return;
  }
  ThreadPool threads(workers_);
  const Matrix m = matrix_of(shape);
  unpack_rows(threads, {.format = panels, .n = m.rows, .k = m.columns, .data = packed.data()},
              rows.data());
}

// The fast kernel; where it has a reason not to exist, the op's reference; where there is no
// reference for such a call either, both reasons.
KernelOrReason CpuDevice::find_kernel(const OpCall& call, CodeStore&) const {
  std::string reason = "no kernel of its own";
  try {
    if (const KernelMaker maker = find_kernel_maker(call.op)) {
      KernelOrReason fast = maker(call, context_);
      if (std::holds_alternative<std::unique_ptr<Kernel>>(fast)) return fast;
      reason = std::get<std::string>(fast);
    }
    KernelOrReason slow = make_reference_kernel(call, context_);
    if (std::holds_alternative<std::unique_ptr<Kernel>>(slow)) return slow;
    return reason + "; " + std::get<std::string>(slow);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) throw;
    return error.message();
  }
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  check(options.threads >= 0 && options.workers >= 0, "a number of threads is not negative");
  const int threads = options.threads > 0 ? options.threads : usable_cpus();
  const int workers = options.workers > 0 ? options.workers : threads;
  return std::make_unique<cpu::CpuDevice>(threads, workers, cpu::tier_under(options.tier),
                                          options.present);
}

}  // namespace ingot
