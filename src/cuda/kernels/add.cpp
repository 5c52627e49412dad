#include "cuda/kernels/add.cu"

#include "cuda/binding.h"

namespace ingot::cuda {

BindingOrReason bind_add(const OpCall& call) {
  Binder binder("add", call);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.require(call.operands[1].dtype == call.operands[0].dtype, "the operands differ in type");
  const ValueType type = call.results[0];
  return binder.finish([type](const KernelArgs& args, const Launcher& launch) {
    const std::int64_t count = elements_at(type, args.dims);
    launch(add_launch(count),
           AddParams{
               .x = input(args, 0), .y = input(args, 1), .out = output(args, 0), .count = count});
  });
}

}  // namespace ingot::cuda
