#pragma once

// The row kernels over the vectors of the vec_*.h included before; see rows.h.
#include "cpu/simd/attention.h"
#include "cpu/simd/matmul.h"
#include "cpu/simd/rows.h"
#include "cpu/simd/vec_math.h"

namespace ingot::cpu {
namespace {

// 32 partial sums, lane i % 32, whatever the width of a vector.
inline float sum_of_squares(const float* x, int64_t n) {
  constexpr int kVecs = 32 / kLanes;
  Vec acc[kVecs];
  for (int v = 0; v < kVecs; ++v) acc[v] = splat(0.0f);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int v = 0; v < kVecs; ++v) {
      const Vec a = load(x + i + v * kLanes);
      acc[v] = add(acc[v], mul(a, a));
    }
  }
  float lanes[32];
  for (int v = 0; v < kVecs; ++v) store(lanes + v * kLanes, acc[v]);
  for (int lane = 0; i < n; ++i, ++lane) lanes[lane] += x[i] * x[i];
  for (int lane = 0; lane < 16; ++lane) lanes[lane] += lanes[lane + 16];
  return sum_of_16(lanes);
}

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const float scale = 1.0f / __builtin_sqrtf(mean + eps);
  const Vec factor = splat(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(out + i, mul(mul(load(x + i), factor), load(weight + i)));
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void add_row(const float* x, const float* y, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, add(load(x + i), load(y + i)));
  for (; i < n; ++i) out[i] = x[i] + y[i];
}

inline Vec silu(Vec x) {
  const Vec t = min(max(sub(splat(0.0f), x), splat(-87.0f)), splat(88.0f));
  const Vec n = round_even(mul(t, splat(kLog2E)));
  Vec r = mul_add(n, splat(-kLn2High), t);
  r = mul_add(n, splat(-kLn2Low), r);
  Vec p = splat(kExp7);
  p = mul_add(p, r, splat(kExp6));
  p = mul_add(p, r, splat(kExp5));
  p = mul_add(p, r, splat(kExp4));
  p = mul_add(p, r, splat(kExp3));
  p = mul_add(p, r, splat(kExp2));
  p = add(mul_add(p, mul(r, r), r), splat(1.0f));
  return div(x, add(splat(1.0f), mul(p, power_of_two(n))));
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, mul(silu(load(gate + i)), load(up + i)));
  if (i == n) return;
  float g[kLanes] = {};
  for (int64_t j = i; j < n; ++j) g[j - i] = gate[j];
  store(g, silu(load(g)));
  for (int64_t j = i; j < n; ++j) out[j] = g[j - i] * up[j];
}

// Double throughout: the angle may be a million turns, and the error must stay below f32's.
void angles(const AnglesCall& call) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to whole numbers
  constexpr double kHigh = 1.570796325802803;    // pi / 2 in 30 bits, so that n * kHigh is exact
  constexpr double kLow = 9.920935796805404e-10;
  for (int64_t i = 0; i < call.n; ++i) {
    const double x = static_cast<double>(call.position * call.inv_freq[i]);
    const double shifted = x * 0.6366197723675814 + kMagic;
    const double n = shifted - kMagic;
    const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted);
    const double r = (x - n * kHigh) - n * kLow;
    const double r2 = r * r;
    const double s =
        r + r * r2 *
                (-1.0 / 6 + r2 * (1.0 / 120 + r2 * (-1.0 / 5040 +
                                                    r2 * (1.0 / 362880 + r2 * (-1.0 / 39916800)))));
    const double c =
        1 + r2 * (-0.5 +
                  r2 * (1.0 / 24 + r2 * (-1.0 / 720 + r2 * (1.0 / 40320 + r2 * (-1.0 / 3628800)))));
    const uint64_t swap = 0 - (quadrant & 1);
    const uint64_t sb = __builtin_bit_cast(uint64_t, s);
    const uint64_t cb = __builtin_bit_cast(uint64_t, c);
    const uint64_t sin_bits = ((sb & ~swap) | (cb & swap)) ^ ((quadrant & 2) << 62);
    const uint64_t cos_bits = ((cb & ~swap) | (sb & swap)) ^ (((quadrant + 1) & 2) << 62);
    call.sin[i] = static_cast<float>(__builtin_bit_cast(double, sin_bits)) * call.scale;
    call.cos[i] = static_cast<float>(__builtin_bit_cast(double, cos_bits)) * call.scale;
  }
}

void rotate(const RotateCall& call) {
  const int64_t half = call.rotary / 2;
  for (int64_t h = 0; h < call.heads; ++h) {
    const float* x = call.x + h * call.dim;
    float* out = call.out + h * call.dim;
    int64_t i = 0;
    if (call.interleaved) {
      for (; i < half; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        out[2 * i] = a * call.cos[i] - b * call.sin[i];
        out[2 * i + 1] = b * call.cos[i] + a * call.sin[i];
      }
    } else {
      for (; i + kLanes <= half; i += kLanes) {
        const Vec a = load(x + i), b = load(x + half + i);
        const Vec c = load(call.cos + i), s = load(call.sin + i);
        store(out + i, sub(mul(a, c), mul(b, s)));
        store(out + half + i, add(mul(b, c), mul(a, s)));
      }
      for (; i < half; ++i) {
        const float a = x[i], b = x[half + i];
        out[i] = a * call.cos[i] - b * call.sin[i];
        out[half + i] = b * call.cos[i] + a * call.sin[i];
      }
    }
    if (out != x)
      for (int64_t d = call.rotary; d < call.dim; ++d) out[d] = x[d];
  }
}

void to_bf16(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_bf16(out + i, load(x + i));
  if (i == n) return;
  float tail[kLanes] = {};
  uint16_t halves[kLanes];
  for (int64_t j = i; j < n; ++j) tail[j - i] = x[j];
  store_bf16(halves, load(tail));
  for (int64_t j = i; j < n; ++j) out[j] = halves[j - i];
}

void from_bf16(const uint16_t* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load_bf16(x + i));
  for (; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    __builtin_memcpy(out + i, &bits, sizeof bits);
  }
}

// The largest magnitude of a row, as bits: what is no number exceeds all that are.
inline uint32_t largest_bits(const float* x, int64_t n) {
  Vec top = splat(0.0f);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) top = max_magnitude(top, load(x + i));
  uint32_t largest = __builtin_bit_cast(uint32_t, largest_magnitude(top));
  for (; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    largest = largest > bits ? largest : bits;
  }
  return largest;
}

// To the nearest whole number, ties to even; |x| is below 2^22.
inline int nearest(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return static_cast<int>((x + kMagic) - kMagic);
}

// The nearest e4m3, ties to even, 0 for subnormal ones; |x| is at most 448 and a little.
inline uint8_t e4m3_of(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t size = bits & 0x7fffffffu;
  // In its own binade the number below 2^-6 would have a digit more.
  const uint32_t low = size < 0x3c800000u ? 0x3c800000u : size;
  uint32_t code = (low - 0x3c000000u + 0x7ffffu + ((low >> 20) & 1u)) >> 20;
  code = code > 0x7eu ? 0x7eu : code;
  code |= (bits >> 24) & 0x80u;
  return size < 0x3c700000u ? uint8_t{0} : static_cast<uint8_t>(code);
}

// The codes of a row and its scale; see ops/reference/kv_row.h.
inline float encode_row(KvStore store, const float* x, int64_t n, uint8_t* codes) {
  constexpr uint32_t kZeroRow = 0x0da24260u;  // 1e-30
  constexpr uint32_t kNoNumber = 0x7f800000u;
  const uint32_t bits = largest_bits(x, n);
  if (bits < kZeroRow || bits >= kNoNumber) {
    for (int64_t i = 0; i < n; ++i) codes[i] = 0;
    return bits < kZeroRow ? 0.0f : __builtin_nanf("");
  }
  const float largest = __builtin_bit_cast(float, bits);
  const float top = store == KvStore::kInt8 ? 127.0f : 448.0f;
  const float by = top / largest;
  if (store == KvStore::kInt8)
    for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(nearest(x[i] * by));
  else
    for (int64_t i = 0; i < n; ++i) codes[i] = e4m3_of(x[i] * by);
  return largest / top;
}

void append_8bit(const AppendCall& call) {
  alignas(64) uint8_t codes[kMaxHeadDim + 1];
  const float k_scale = encode_row(call.store, call.k, call.dim, codes);
  codes[call.dim] = 0;  // the last pair's second where dim is odd
  for (int64_t j = 0; j < (call.dim + 1) / 2; ++j)
    __builtin_memcpy(call.k_to + j * kKeyGroup * 2, codes + 2 * j, 2);
  const float v_scale = encode_row(call.store, call.v, call.dim, codes);
  for (int64_t d = 0; d < call.dim; ++d) call.v_to[2 * d] = codes[d];
  __builtin_memcpy(call.k_scale, &k_scale, sizeof k_scale);
  __builtin_memcpy(call.v_scale, &v_scale, sizeof v_scale);
}

void append(const AppendCall& call) {
  if (has_scales(call.store)) return append_8bit(call);
  if (call.store == KvStore::kF32) {
    float* k = reinterpret_cast<float*>(call.k_to);
    for (int64_t d = 0; d < call.dim; ++d) k[d * kKeyGroup] = call.k[d];
    __builtin_memcpy(call.v_to, call.v, static_cast<size_t>(call.dim) * sizeof(float));
    return;
  }
  to_bf16(call.v, call.dim, reinterpret_cast<uint16_t*>(call.v_to));
  alignas(64) uint16_t halves[kMaxHeadDim + 2];
  to_bf16(call.k, call.dim, halves);
  halves[call.dim] = 0;  // the last pair's second where dim is odd
  for (int64_t j = 0; j < (call.dim + 1) / 2; ++j)
    __builtin_memcpy(call.k_to + j * kKeyGroup * 4, halves + 2 * j, 4);
}

constexpr RowKernels kRows = {rms_norm, add_row, swiglu,  angles,
                              rotate,   append,  to_bf16, from_bf16};

}  // namespace
}  // namespace ingot::cpu
