#pragma once

#include "cpu/simd/rows.h"
#include "tensor/dtype.h"

#include <cstddef>
#include <cstdint>

namespace ingot::cpu {

// n values of a floating dtype to f32, exactly; x and out may not overlap unless both are f32.
void to_f32(const RowKernels& rows, DType from, const std::byte* x, std::int64_t n, float* out);
// The way back, rounded to nearest even.
void from_f32(const RowKernels& rows, const float* x, std::int64_t n, DType to, std::byte* out);

}  // namespace ingot::cpu
