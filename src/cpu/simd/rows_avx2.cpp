#include "cpu/simd/vec_avx2.h"
// Vectors first.
#include "cpu/simd/rows_body.h"

namespace ingot::cpu {

const RowKernels kRowsAvx2 = kRows;

}  // namespace ingot::cpu
