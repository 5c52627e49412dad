#include "cuda/kernels/split.cu"

#include "cuda/binding.h"
#include "ops/attrs.h"

namespace ingot::cuda {

BindingOrReason bind_split(const OpCall& call) {
  const auto attrs = read_attrs<SplitAttrs>(*call.attrs);
  Binder binder("split", call);
  binder.number("WIDTH", columns_of(call.operands[0]));
  binder.type("X_TYPE", call.operands[0].dtype);
  const Dim rows = call.operands[0].dims[0];
  return binder.finish([=](const KernelArgs& args, const Launcher& launch) {
    const std::int64_t count = rows.at(args.dims);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < attrs.sizes.size(); ++i) {
      launch(split_launch(count, attrs.sizes[i]),
             SplitParams{.x = input(args, 0),
                         .out = output(args, i),
                         .rows = count,
                         .first = static_cast<int>(first),
                         .columns = static_cast<int>(attrs.sizes[i])});
      first += attrs.sizes[i];
    }
  });
}

}  // namespace ingot::cuda
