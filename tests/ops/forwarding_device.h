#pragma once

#include "device/device.h"

#include <memory>
#include <utility>

namespace ingot::test {

// Another device, as it is: for those that differ from it in a few answers.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  DeviceInfo info() const override { return inner_->info(); }
  DType activation_dtype(ComputeMode mode) const override { return inner_->activation_dtype(mode); }
  DType kv_dtype(ComputeMode mode) const override { return inner_->kv_dtype(mode); }
  std::int64_t page_tokens() const override { return inner_->page_tokens(); }
  std::size_t page_bytes(const StateSpec& spec, std::int64_t tokens) const override {
    return inner_->page_bytes(spec, tokens);
  }
  WeightLayout weight_layout(const WeightFormat& format, const Shape& shape,
                             std::span<const WeightUse> uses) const override {
    return inner_->weight_layout(format, shape, uses);
  }
  void pack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                   std::span<const std::byte> rows, std::span<std::byte> packed) const override {
    inner_->pack_weight(layout, format, shape, rows, packed);
  }
  void unpack_weight(const WeightLayout& layout, const WeightFormat& format, const Shape& shape,
                     std::span<const std::byte> packed, std::span<std::byte> rows) const override {
    inner_->unpack_weight(layout, format, shape, packed, rows);
  }
  KernelOrReason find_kernel(const OpCall& call, CodeStore& code) const override {
    return inner_->find_kernel(call, code);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate(bytes, purpose);
  }
  std::unique_ptr<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate_host(bytes, purpose);
  }
  std::unique_ptr<Buffer> place_weights(std::span<const std::byte> mapped,
                                        const std::function<void(std::size_t)>& done) override {
    return inner_->place_weights(mapped, done);
  }
  std::unique_ptr<Stream> make_stream() override { return inner_->make_stream(); }
  void copy_in(std::byte* device, std::span<const std::byte> host, Stream& stream) override {
    inner_->copy_in(device, host, stream);
  }
  void copy_out(std::span<std::byte> host, const std::byte* device, Stream& stream) override {
    inner_->copy_out(host, device, stream);
  }
  void copy_within(std::byte* to, const std::byte* from, std::size_t bytes,
                   Stream& stream) override {
    inner_->copy_within(to, from, bytes, stream);
  }

 private:
  std::unique_ptr<Device> inner_;
};

}  // namespace ingot::test
