#include "cuda/kernels/linear.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

namespace ingot::cuda {

BindingOrReason bind_linear(const OpCall& call) {
  const auto attrs = read_attrs<LinearAttrs>(*call.attrs);
  const std::size_t residual = attrs.bias ? 3 : 2;  // operand, when there is one
  const std::int64_t weight_rows = call.operands[1].dims[0].offset;
  Binder binder("linear", call);
  binder.number("WIDTH", columns_of(call.operands[1]));
  binder.number("WEIGHT_ROWS", weight_rows);
  binder.number("SWIGLU", attrs.swiglu);
  binder.number("INTERLEAVE", kGateUpInterleave);
  binder.number("HAS_BIAS", attrs.bias);
  binder.number("HAS_RESIDUAL", attrs.residual);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.type("OUT_TYPE", call.results[0].dtype);
  binder.type("RESIDUAL_TYPE", call.operands[attrs.residual ? residual : 0].dtype);
  binder.weight(1);
  if (attrs.bias) binder.vector(2);
  binder.require(!attrs.swiglu || weight_rows % (2 * kGateUpInterleave) == 0,
                 "gate and up rows do not interleave by 16");
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    check_aligned(input(args, 0));
    check_aligned(input(args, 1));
    const std::int64_t m = rows.at(args.dims);
    launch(linear_launch(m, weight_rows),
           LinearParams{.x = input(args, 0),
                        .weight = input(args, 1),
                        .bias = attrs.bias ? input<float>(args, 2) : nullptr,
                        .residual = attrs.residual ? input(args, residual) : nullptr,
                        .out = output(args, 0),
                        .rows = static_cast<int>(m)});
  });
}

}  // namespace ingot::cuda
