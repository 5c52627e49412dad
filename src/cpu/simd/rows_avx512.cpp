#include "cpu/simd/vec_avx512.h"
// Vectors first.
#include "cpu/simd/rows_body.h"

namespace ingot::cpu {

const RowKernels kRowsAvx512 = kRows;

}  // namespace ingot::cpu
