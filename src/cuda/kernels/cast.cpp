#include "cuda/kernels/cast.cu"

#include "cuda/binding.h"

namespace ingot::cuda {

BindingOrReason bind_cast(const OpCall& call) {
  Binder binder("cast", call);
  binder.type("X_TYPE", call.operands[0].dtype);
  binder.type("OUT_TYPE", call.results[0].dtype);
  const ValueType type = call.results[0];
  return binder.finish([type](const KernelArgs& args, const Launcher& launch) {
    const std::int64_t count = elements_at(type, args.dims);
    launch(cast_launch(count),
           CastParams{.x = input(args, 0), .out = output(args, 0), .count = count});
  });
}

}  // namespace ingot::cuda
