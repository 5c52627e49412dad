#include "cpu/reference_kernel.h"

#include "base/check.h"
#include "cpu/convert.h"
#include "cpu/packed_row.h"
#include "cpu/weight_place.h"
#include "ops/ops.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace ingot::cpu {

namespace {

// A weight of any format and layout to f32.
void widen_weight(const ValueType& type, bool panels, const std::byte* data, RefTensor& out) {
  const WeightFormat& format = *type.format;
  const std::int64_t columns = out.shape.rank() == 0 ? 1 : out.shape[out.shape.rank() - 1];
  const std::int64_t rows = columns == 0 ? 0 : out.shape.elements() / columns;
  const std::size_t row_bytes = format.row_bytes(columns);
  const PackedWeight packed{.format = panels ? find_packed_format(format.name) : nullptr,
                            .n = rows,
                            .k = columns,
                            .data = data};
  std::vector<std::byte> row(panels ? row_bytes : 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* source = data + static_cast<std::size_t>(r) * row_bytes;
    if (panels) {
      unpack_row(packed, r, row.data());
      source = row.data();
    }
    format.dequantize_row(source, columns, out.f.data() + r * columns);
  }
}

class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const OpCall& call, const RowKernels& rows)
      : name_(std::string(call.op) + ".reference"),
        op_(op(call.op)),
        attrs_(*call.attrs),
        operand_types_(call.operands),
        layouts_(call.layouts),
        result_types_(call.results),
        rows_(rows),
        operands_(call.operands.size()),
        results_(call.results.size()),
        states_(call.operands.size(), nullptr) {
    for (const RefTensor& tensor : operands_) pointers_.push_back(&tensor);
  }

  std::string_view name() const override { return name_; }

  void run(const KernelArgs& args) override {
    for (std::size_t i = 0; i < operands_.size(); ++i)
      load(operand_types_[i], layouts_[i] == kPanelLayout, args.operands[i], args.dims,
           operands_[i]);
    for (std::size_t i = 0; i < results_.size(); ++i) {
      results_[i].shape = result_types_[i].at(args.dims);
      const auto n = static_cast<std::size_t>(results_[i].shape.elements());
      const bool whole = result_types_[i].dtype == DType::kI32;
      results_[i].f.assign(whole ? 0 : n, 0.0f);
      results_[i].i.assign(whole ? n : 0, 0);
    }
    op_.reference({attrs_, pointers_, states_, results_});
    for (std::size_t i = 0; i < results_.size(); ++i)
      save(results_[i], result_types_[i].dtype, args.results[i]);
  }

 private:
  void load(const ValueType& type, bool panels, const std::byte* data, const DimValues& dims,
            RefTensor& out) const {
    out.shape = type.at(dims);
    const std::int64_t n = out.shape.elements();
    if (type.format) {
      out.f.resize(static_cast<std::size_t>(n));
      widen_weight(type, panels, data, out);
    } else if (type.dtype == DType::kI32) {
      out.i.resize(static_cast<std::size_t>(n));
      std::memcpy(out.i.data(), data, static_cast<std::size_t>(n) * 4);
    } else {
      out.f.resize(static_cast<std::size_t>(n));
      to_f32(rows_, type.dtype, data, n, out.f.data());
    }
  }

  void save(const RefTensor& tensor, DType dtype, std::byte* data) const {
    if (dtype == DType::kI32)
      std::memcpy(data, tensor.i.data(), tensor.i.size() * 4);
    else
      from_f32(rows_, tensor.f.data(), static_cast<std::int64_t>(tensor.f.size()), dtype, data);
  }

  std::string name_;
  const OpDef& op_;
  Attrs attrs_;
  std::vector<ValueType> operand_types_;
  std::vector<std::string> layouts_;
  std::vector<ValueType> result_types_;
  const RowKernels& rows_;
  std::vector<RefTensor> operands_;
  std::vector<RefTensor> results_;
  std::vector<const RefTensor*> pointers_;
  std::vector<RefState*> states_;
};

bool convertible(const ValueType& type) {
  return type.format || type.dtype == DType::kI32 ||
         (is_float(type.dtype) && type.dtype != DType::kE5M2);
}

}  // namespace

KernelOrReason make_reference_kernel(const OpCall& call, const KernelContext& context) {
  if (std::any_of(call.operands.begin(), call.operands.end(),
                  [](const ValueType& type) { return type.state.kv_heads != 0; }))
    return std::string("its reference cannot read the CPU's KV pages");
  if (!std::all_of(call.operands.begin(), call.operands.end(), convertible) ||
      !std::all_of(call.results.begin(), call.results.end(), convertible))
    return std::string("its reference knows floats and i32 only");
  return std::make_unique<ReferenceKernel>(call, context.rows);
}

}  // namespace ingot::cpu
