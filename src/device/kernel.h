#pragma once

#include "ir/attrs.h"
#include "ir/type.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ingot {

class Stream;

// kNative: the device's fast arithmetic. kF32: float32 throughout, for comparison with references.
enum class ComputeMode : std::uint8_t { kNative, kF32 };

// One call that a kernel is wanted for: all that is known at build.
struct OpCall {
  std::string_view op;
  const Attrs* attrs = nullptr;
  std::vector<ValueType> operands;
  std::vector<std::string> layouts;  // of each operand: a weight's layout name, "" otherwise
  std::vector<ValueType> results;
  DimValues max;
  ComputeMode mode = ComputeMode::kNative;
  std::int64_t page_tokens = 0;
};

// Addresses for one run, by operand and result; a state's address is its first page.
struct KernelArgs {
  std::span<std::byte* const> operands;
  std::span<std::byte* const> results;
  std::byte* workspace = nullptr;  // workspace_bytes() of the kernel; contents undefined
  DimValues dims;
  Stream* stream = nullptr;
};

// One prepared call. Never allocates or synchronises in run(); safe to run again and again.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // "linear.avx512_vnni.q4_1"
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void run(const KernelArgs& args) = 0;
};

using KernelOrReason = std::variant<std::unique_ptr<Kernel>, std::string>;

// Compiled device code by content name: filled while an engine is built and stored in it, read when
// it is opened.
class CodeStore {
 public:
  // Null when absent.
  const std::string* find(std::string_view name) const {
    const auto it = objects_.find(name);
    return it == objects_.end() ? nullptr : &it->second;
  }
  const std::string& put(std::string name, std::string object) {
    return objects_.insert_or_assign(std::move(name), std::move(object)).first->second;
  }
  const std::map<std::string, std::string, std::less<>>& objects() const { return objects_; }

 private:
  std::map<std::string, std::string, std::less<>> objects_;
};

}  // namespace ingot
