#pragma once

#include "builder/build_engine.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ingot::test {

// A real model of one layer and few words, compiled for a device, and its weights there.
struct TinyEngine {
  static constexpr std::int64_t kVocab = 32;

  struct Options {
    std::unique_ptr<Device> device;  // null: the one whose kernels check what they are given
    ComputeMode mode = ComputeMode::kNative;
    std::vector<std::string> skip_passes;
    std::filesystem::path keep;  // where the engine's file stays; empty: nowhere
  };
  // `fixtures` is tests/fixtures.
  explicit TinyEngine(const std::filesystem::path& fixtures);
  TinyEngine(const std::filesystem::path& fixtures, Options options);

  std::span<const std::byte> weight_bytes() const { return {weights->data(), weights->bytes()}; }

  std::unique_ptr<Device> device;
  BuiltModel model;
  std::unique_ptr<Buffer> weights;  // the weight section, and not a byte more
};

}  // namespace ingot::test
