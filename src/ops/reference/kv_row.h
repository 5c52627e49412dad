#pragma once

#include "tensor/dtype.h"

#include <cstdint>
#include <span>

// How an 8-bit KV state keeps a row: the K, or the V, of one token and kv head. A row has an f32
// scale of its own, found when the token is appended, so nothing has to be calibrated and a token's
// bits depend on nothing but its own numbers. value = code * scale.
//
//   i8    scale = largest / 127; code = value * (127 / largest), rounded to the nearest, ties to
//         even
//   e4m3  scale = largest / 448; code = value * (448 / largest), rounded likewise; where that gives
//         a subnormal number, one below 2^-6, the code is 0: no device need read them
//
// largest is the largest magnitude of the row; all in f32. Where it is below 1e-30 the scale and
// all codes are 0. Where a number is not finite the scale is NaN and all codes are 0: whoever
// reads the row is told.
//
// Scales of rows instead of a checkpoint's one for each layer: keys of some channels and models
// reach hundreds, where e4m3 ends at 448 and one scale for all leaves the others few bits; and in
// int8 one scale costs accuracy that everybody reports. It costs 8 bytes a token and head, 6 % at
// 64 values.
namespace ingot {

// The row's codes, as bytes, and its scale. `dtype` is i8 or e4m3.
float encode_kv_row(DType dtype, std::span<const float> row, std::span<std::uint8_t> codes);
void decode_kv_row(DType dtype, std::span<const std::uint8_t> codes, float scale,
                   std::span<float> row);
// What reading a row gives back.
void round_kv_row(DType dtype, std::span<float> row);

}  // namespace ingot
