#include "cpu/simd/vec_generic.h"
// Vectors first.
#include "cpu/simd/rows_body.h"

namespace ingot::cpu {

const RowKernels kRowsGeneric = kRows;

}  // namespace ingot::cpu
