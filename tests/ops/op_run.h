#pragma once

#include "device/device.h"
#include "ir/op_def.h"

#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

// One sample call of one op on one device: the driver's working part.
namespace ingot {

// What a native kernel may do to the activations that it multiplies with a matrix or the KV cache.
enum class ActivationRounding { kNone, kInt16, kBf16, kInt8 };

struct OpRunSpec {
  const OpCase* sample = nullptr;
  ComputeMode mode = ComputeMode::kNative;
  const WeightFormat* format = nullptr;  // of the matrix, for ops that take one
  bool cold_weights = false;             // several copies, used in turn (timing)
};

// Whether an operand stands for a matrix in any weight format.
bool takes_matrix(const OpCase& sample);
bool fits_format(const OpCase& sample, const WeightFormat& format);

// The reference of `op`, but that what it appends to an 8-bit state is rounded to the activation
// type first, as by kernels: rounded to a code at once, a number near the border of two would be a
// whole step off.
void run_op_reference(const OpDef& op, const RefCall& call, DType activations);

// Rows of the canonical form: normal numbers of about 1/sqrt(k) where Ingot can quantise, else
// random blocks that hold sensible numbers.
std::vector<std::byte> random_rows(const WeightFormat& format, std::int64_t rows, std::int64_t k,
                                   std::mt19937& random);

// Numbers as memory of `dtype`, and back; integers have the one dtype of indices.
bool has_encoding(DType dtype);
std::vector<std::byte> encode(const RefTensor& tensor, DType dtype);
std::vector<float> decode(std::span<const std::byte> bytes, DType dtype);

class OpRun {
 public:
  // Fills all operands and states, on the device and for the reference.
  OpRun(Device& device, const OpDef& op, const OpRunSpec& spec);
  ~OpRun();

  const std::string& missing() const { return missing_; }  // empty when there is a kernel
  std::string kernel_name() const;
  ComputeMode mode() const { return spec_.mode; }
  DType activation_dtype() const { return device_.activation_dtype(spec_.mode); }
  ActivationRounding activation_rounding() const;

  void run_reference();
  // Results are filled with NaNs before. `shared`: (operand, result) pairs in one memory.
  void run_on_device(std::vector<std::pair<int, int>> shared = {});
  bool can_share(int operand, int result) const;

  DType result_dtype(std::size_t i) const { return results_[i].type.dtype; }
  std::vector<float> result(std::size_t i) const;
  std::span<const float> wanted(std::size_t i) const { return results_[i].wanted.f; }
  std::vector<std::vector<std::byte>> result_bytes() const;
  // Bytes behind the results, and activations that are only read, are as before.
  bool guards_intact() const;

  // Attention over each page of the state, as one sequence each.
  std::vector<float> read_state_on_device();
  std::vector<float> read_state_by_reference();
  ActivationRounding state_rounding() const { return state_rounding_; }  // of the reading on device
  DType state_dtype();

  double median_seconds();
  double bytes_touched() const;

 private:
  struct Operand {
    ValueType type;
    Shape shape;
    WeightLayout layout;
    RefTensor tensor;
    RefState state;
    std::int64_t pages = 0;
    std::vector<std::byte> host;
    std::vector<std::unique_ptr<Buffer>> buffers;  // one, or copies of a weight
    std::byte* address(std::size_t copy = 0) const {
      return buffers[copy % buffers.size()]->data();
    }
    bool is_weight() const { return type.format != nullptr; }
    bool is_state() const { return type.state != StateSpec{}; }
  };
  struct Result {
    ValueType type;
    RefTensor wanted;
    std::size_t bytes = 0;
    std::unique_ptr<Buffer> buffer;  // with guard bytes behind
    std::byte* address = nullptr;    // of the last run: the buffer's or an operand's
  };

  ValueType own_type(const OperandCase& sample) const;
  void fill(Operand& operand, const OperandCase& sample);
  void fill_weight(Operand& operand, const OperandCase& sample, std::size_t index);
  void fill_state(Operand& operand);
  Operand* state_operand();
  std::unique_ptr<Buffer> upload(std::span<const std::byte> bytes);
  std::unique_ptr<Kernel> kernel_for(std::string_view op, const Attrs& attrs,
                                     const std::vector<ValueType>& operands,
                                     const std::vector<ValueType>& results, const DimValues& dims);
  void launch(Kernel& kernel, std::span<std::byte* const> operands,
              std::span<std::byte* const> results, const DimValues& dims);
  struct StateReading;
  StateReading state_reading();
  ActivationRounding attention_rounding(const Kernel& kernel) const;

  Device& device_;
  const OpDef& op_;
  OpRunSpec spec_;
  Attrs attrs_;
  DimValues dims_;
  std::int64_t page_tokens_ = 0;
  std::mt19937 random_;
  std::unique_ptr<Stream> stream_;
  CodeStore code_;
  std::vector<Operand> operands_;
  std::vector<Result> results_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Buffer> workspace_;
  std::string missing_;
  ActivationRounding state_rounding_ = ActivationRounding::kNone;
};

// The cases of --bench, with shapes of SmolLM2-135M and Llama-3.2-1B.
struct BenchCase {
  std::string_view op;
  OpCase sample;
  double flops = 0;
};
std::vector<BenchCase> bench_cases();

}  // namespace ingot
