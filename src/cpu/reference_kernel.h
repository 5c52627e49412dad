#pragma once

#include "cpu/kernel_maker.h"

namespace ingot::cpu {

// The op's reference as a kernel, named "<op>.reference": slow, right, on one thread. The reason
// why not for ops with a state, whose pages only fast kernels know.
KernelOrReason make_reference_kernel(const OpCall& call, const KernelContext& context);

}  // namespace ingot::cpu
