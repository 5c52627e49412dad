#include "cuda/kernels/add_rms_norm.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

namespace ingot::cuda {

BindingOrReason bind_add_rms_norm(const OpCall& call) {
  const auto attrs = read_attrs<RmsNormAttrs>(*call.attrs);
  Binder binder("add_rms_norm", call);
  binder.number("WIDTH", columns_of(call.operands[0]));
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.require(call.operands[1].dtype == call.operands[0].dtype, "x and y differ in type");
  binder.vector(2);
  binder.require(columns_of(call.operands[0]) <= kAddNormWidest,
                 "a row is longer than the registers of a block hold");
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    launch(add_rms_norm_launch(rows.at(args.dims)),
           AddRmsNormParams{.x = input(args, 0),
                            .y = input(args, 1),
                            .weight = input<float>(args, 2),
                            .sum = output(args, 0),
                            .out = output(args, 1),
                            .eps = static_cast<float>(attrs.eps)});
  });
}

}  // namespace ingot::cuda
