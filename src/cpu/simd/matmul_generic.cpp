// The portable tier: plain loops, the meaning of every packed format, and the order of every sum
// that the fast tiers keep.
#include "base/half.h"
#include "cpu/simd/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ingot::cpu {

namespace {

constexpr int kTile = 4;
constexpr int kSliceK = 256;
constexpr float kSmallest = 1e-30f;  // below it 127 / max would not be finite

// One packed block; planes count in units of one half or word plane.
struct Block {
  const uint8_t* p;
  int halves;

  uint16_t half_bits(int plane, int r) const {
    uint16_t h;
    std::memcpy(&h, p + plane * 64 + r * 2, 2);
    return h;
  }
  float half(int plane, int r) const { return f16_to_f32(half_bits(plane, r)); }
  uint32_t word(int plane, int r) const {
    uint32_t w;
    std::memcpy(&w, p + halves * 64 + plane * 128 + r * 4, 4);
    return w;
  }
  // Byte i of the words from `plane` on.
  uint32_t byte(int plane, int i, int r) const { return word(plane + i / 4, r) >> i % 4 * 8 & 255; }
};

constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};

constexpr int half_planes(PackedKind kind) {
  switch (kind) {
    case PackedKind::kF32:
    case PackedKind::kF16:
    case PackedKind::kBf16:
    case PackedKind::kFp8:
    case PackedKind::kInt8:
      return 0;
    case PackedKind::kQ4_1:
    case PackedKind::kQ5_1:
    case PackedKind::kQ2K:
    case PackedKind::kQ4K:
    case PackedKind::kQ5K:
    case PackedKind::kIq4Xs:
      return 2;
    default:
      return 1;
  }
}

// Nibble k of a run of `half` low nibbles followed by as many high ones.
uint32_t nibble(const Block& b, int plane, int half, int k, int r) {
  return b.byte(plane, k % half, r) >> (k < half ? 0 : 4) & 15;
}

template <PackedKind K>
uint32_t quant(const Block& b, int r, int k) {
  if constexpr (K == PackedKind::kInt8 || K == PackedKind::kQ8_0) {
    return b.byte(0, k, r);
  } else if constexpr (K == PackedKind::kInt4) {
    return nibble(b, 0, 32, k, r);
  } else if constexpr (K == PackedKind::kQ4_0 || K == PackedKind::kQ4_1) {
    return nibble(b, 0, 16, k, r);
  } else if constexpr (K == PackedKind::kQ5_0 || K == PackedKind::kQ5_1) {
    return nibble(b, 1, 16, k, r) | (b.word(0, r) >> k & 1) << 4;
  } else if constexpr (K == PackedKind::kIq4Nl) {
    return static_cast<uint32_t>(kIq4[nibble(b, 0, 16, k, r)] + 128);
  } else if constexpr (K == PackedKind::kIq4Xs) {
    return static_cast<uint32_t>(kIq4[nibble(b, 1 + k / 32 * 4, 16, k % 32, r)] + 128);
  } else if constexpr (K == PackedKind::kQ2K) {
    return b.byte(4 + k / 128 * 8, k % 32, r) >> k % 128 / 32 * 2 & 3;
  } else if constexpr (K == PackedKind::kQ3K) {
    const uint32_t low = b.byte(11 + k / 128 * 8, k % 32, r) >> k % 128 / 32 * 2 & 3;
    return low | (b.byte(3, k % 32, r) >> k / 32 & 1) << 2;
  } else if constexpr (K == PackedKind::kQ4K) {
    return nibble(b, 3 + k / 64 * 8, 32, k % 64, r);
  } else if constexpr (K == PackedKind::kQ5K) {
    return nibble(b, 11 + k / 64 * 8, 32, k % 64, r) | (b.byte(3, k % 32, r) >> k / 32 & 1) << 4;
  } else {
    static_assert(K == PackedKind::kQ6K);
    const int half = k / 128;
    const int group = k % 128 / 32;
    const uint32_t low = b.byte(4 + half * 16 + group % 2 * 8, k % 32, r) >> group / 2 * 4 & 15;
    return low | (b.byte(36 + half * 8, k % 32, r) >> group * 2 & 3) << 4;
  }
}

// 6-bit scale (which = 0) or minimum (1) of sub-block j of q4_k and q5_k.
uint32_t k_scale(const Block& b, int which, int j, int r) {
  if (j < 4) return b.byte(which, j, r) & 63;
  return (b.byte(2, j - 4, r) >> which * 4 & 15) | (b.byte(which, j - 4, r) >> 6) << 4;
}

// Scale of the group that holds value k; formats with row scales are handled by the caller.
template <PackedKind K>
float scale_of(const Block& b, int r, int k) {
  const float d = b.half(0, r);
  if constexpr (K == PackedKind::kQ2K) {
    return d * static_cast<float>(b.byte(0, k / 16, r) & 15);
  } else if constexpr (K == PackedKind::kQ3K) {
    const int i = k / 16;
    const uint32_t low = b.byte(0, i % 8, r) >> i / 8 * 4 & 15;
    const uint32_t high = b.byte(2, i % 4, r) >> i / 4 * 2 & 3;
    return d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  } else if constexpr (K == PackedKind::kIq4Xs) {
    const uint32_t low = b.word(0, r) >> k / 32 * 4 & 15;
    const uint32_t high = static_cast<uint32_t>(b.half_bits(1, r)) >> k / 32 * 2 & 3;
    return d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  } else if constexpr (K == PackedKind::kQ4K || K == PackedKind::kQ5K) {
    return d * static_cast<float>(k_scale(b, 0, k / 32, r));
  } else if constexpr (K == PackedKind::kQ6K) {
    return d * static_cast<float>(static_cast<int8_t>(b.byte(0, k / 16, r)));
  } else {
    return d;
  }
}

template <PackedKind K>
float minimum_of(const Block& b, int r, int k) {
  if constexpr (K == PackedKind::kQ2K) {
    return -(b.half(1, r) * static_cast<float>(b.byte(0, k / 16, r) >> 4));
  } else if constexpr (K == PackedKind::kQ4K || K == PackedKind::kQ5K) {
    return -(b.half(1, r) * static_cast<float>(k_scale(b, 1, k / 32, r)));
  } else {
    return b.half(1, r);
  }
}

template <PackedKind K>
float float_value(const Block& b, int r, int k) {
  if constexpr (K == PackedKind::kF32) {
    return std::bit_cast<float>(b.word(k, r));
  } else if constexpr (K == PackedKind::kFp8) {
    return e4m3_to_f32(static_cast<uint8_t>(b.byte(0, k, r)));
  } else {
    const auto h = static_cast<uint16_t>(b.word(k / 2, r) >> k % 2 * 16);
    return K == PackedKind::kF16 ? f16_to_f32(h) : bf16_to_f32(h);
  }
}

// f32 values [k][32].
template <PackedKind K>
void expand_f32(const PackedFormat& f, const ExpandCall& call) {
  auto* out = reinterpret_cast<float*>(call.q);
  const int bytes = packed_block_bytes(f);
  for (int64_t k = 0; k < call.k; ++k) {
    const int at = static_cast<int>(k % f.block_k);
    const Block b{call.blocks + k / f.block_k * bytes, half_planes(K)};
    for (int r = 0; r < kPanelRows; ++r) {
      float v;
      if constexpr (K <= PackedKind::kFp8) {
        v = float_value<K>(b, r, at);
        if constexpr (K == PackedKind::kFp8) v = call.row_scale[r] * v;
      } else {
        const int q = static_cast<int>(quant<K>(b, r, at)) - f.zero_point;
        const float scale = f.group == 0 ? call.row_scale[r] : scale_of<K>(b, r, at);
        v = scale * static_cast<float>(q);
        if (f.has_min) v = v + minimum_of<K>(b, r, at);
      }
      out[k * kPanelRows + r] = v;
    }
  }
}

// Bytes [k / 4][32][4], scales [k / group][32], minimums behind the scales of their group.
template <PackedKind K>
void expand_bytes(const PackedFormat& f, const ExpandCall& call) {
  const int bytes = packed_block_bytes(f);
  float* scale = call.scale;
  for (int64_t k = 0; k < call.k; ++k) {
    const int at = static_cast<int>(k % f.block_k);
    const Block b{call.blocks + k / f.block_k * bytes, half_planes(K)};
    for (int r = 0; r < kPanelRows; ++r)
      call.q[(k / 4 * kPanelRows + r) * 4 + k % 4] = static_cast<uint8_t>(quant<K>(b, r, at));
    if (f.group == 0 || k % f.group != 0) continue;
    for (int r = 0; r < kPanelRows; ++r) *scale++ = scale_of<K>(b, r, at);
    if (!f.has_min) continue;
    for (int r = 0; r < kPanelRows; ++r) *scale++ = minimum_of<K>(b, r, at);
  }
}

bool floats(const PackedFormat& f, Compute compute) {
  return f.is_float || compute == Compute::kF32;
}

template <PackedKind K>
void expand_as(const ExpandCall& call) {
  const PackedFormat& f = kPackedFormats[static_cast<int>(K)];
  if constexpr (K > PackedKind::kFp8) {
    if (call.compute == Compute::kNative) return expand_bytes<K>(f, call);
  }
  expand_f32<K>(f, call);
}

void expand_kind(const ExpandCall& call) {
  switch (call.format->kind) {
    case PackedKind::kF32:
      return expand_as<PackedKind::kF32>(call);
    case PackedKind::kF16:
      return expand_as<PackedKind::kF16>(call);
    case PackedKind::kBf16:
      return expand_as<PackedKind::kBf16>(call);
    case PackedKind::kFp8:
      return expand_as<PackedKind::kFp8>(call);
    case PackedKind::kInt8:
      return expand_as<PackedKind::kInt8>(call);
    case PackedKind::kInt4:
      return expand_as<PackedKind::kInt4>(call);
    case PackedKind::kQ8_0:
      return expand_as<PackedKind::kQ8_0>(call);
    case PackedKind::kQ4_0:
      return expand_as<PackedKind::kQ4_0>(call);
    case PackedKind::kQ4_1:
      return expand_as<PackedKind::kQ4_1>(call);
    case PackedKind::kQ5_0:
      return expand_as<PackedKind::kQ5_0>(call);
    case PackedKind::kQ5_1:
      return expand_as<PackedKind::kQ5_1>(call);
    case PackedKind::kIq4Nl:
      return expand_as<PackedKind::kIq4Nl>(call);
    case PackedKind::kQ2K:
      return expand_as<PackedKind::kQ2K>(call);
    case PackedKind::kQ3K:
      return expand_as<PackedKind::kQ3K>(call);
    case PackedKind::kQ4K:
      return expand_as<PackedKind::kQ4K>(call);
    case PackedKind::kQ5K:
      return expand_as<PackedKind::kQ5K>(call);
    case PackedKind::kQ6K:
      return expand_as<PackedKind::kQ6K>(call);
    case PackedKind::kIq4Xs:
      return expand_as<PackedKind::kIq4Xs>(call);
    case PackedKind::kCount:
      break;
  }
}

MatmulPlan plan(const PackedFormat& f, Compute compute, int64_t) {
  const bool wide = floats(f, compute);
  const int groups = f.group == 0 ? 0 : kSliceK / f.group * (f.has_min ? 2 : 1);
  return {.tile_tokens = kTile,
          .slice_k = kSliceK,
          .value_bytes = wide ? 4 : 1,
          .slice_bytes = kSliceK * kPanelRows * (wide ? 4 : 1),
          .slice_floats = wide ? 0 : groups * kPanelRows};
}

// The largest magnitude by its bits: order is that of floats, and NaN survives.
float largest(const float* x, int64_t n) {
  uint32_t top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return std::bit_cast<float>(top);
}

struct Step {
  float scale;
  float inverse;
};
Step step_of(float top) {
  if (top <= kSmallest) return {0, 0};
  return {top / 127.0f, 127.0f / top};
}

int8_t rounded(float x) {
  const float r = std::nearbyintf(x);
  return r >= -127.0f && r <= 127.0f ? static_cast<int8_t>(r) : int8_t{-128};
}

// f32: [k][tokens]. Bytes: [k / 4][tokens][4].
void quantise_f32(const QuantiseCall& call) {
  auto* q = static_cast<float*>(call.out.q);
  for (int64_t k = 0; k < call.padded_k; ++k)
    for (int i = 0; i < call.out.tokens; ++i)
      *q++ = k < call.k ? call.x[i * call.x_stride + k] : 0.0f;
}

void quantise_token(const QuantiseCall& call, int i) {
  const PackedFormat& f = *call.format;
  const ActTile& out = call.out;
  const float* x = call.x + i * call.x_stride;
  const int64_t span = f.group == 0 ? call.padded_k : 32;
  const int64_t group = f.group == 0 ? call.padded_k : f.group;
  auto* q = static_cast<int8_t*>(out.q);
  for (int64_t begin = 0; begin < call.padded_k; begin += span) {
    const int64_t end = std::min(begin + span, call.k);
    const Step step = step_of(largest(x + begin, end - begin));
    out.scale[begin / span * out.tokens + i] = step.scale;
    for (int64_t g = begin; g < begin + span; g += group) {
      int total = 0;
      for (int64_t k = g; k < g + group; ++k) {
        const int8_t v = k < call.k ? rounded(x[k] * step.inverse) : int8_t{0};
        q[(k / 4 * out.tokens + i) * 4 + k % 4] = v;
        total += v;
      }
      const int64_t at = g / group * out.tokens + i;
      out.init[at] = -f.zero_point * total;
      if (f.has_min) out.sum[at] = step.scale * static_cast<float>(total);
    }
  }
}

void quantise(const QuantiseCall& call) {
  if (floats(*call.format, call.compute)) return quantise_f32(call);
  for (int i = 0; i < call.out.tokens; ++i) quantise_token(call, i);
}

void tile_f32(const TileCall& call) {
  const int tokens = call.act.tokens;
  const float* x = static_cast<const float*>(call.act.q) + call.k_begin * tokens;
  const auto* w = reinterpret_cast<const float*>(call.q);
  if (call.first) std::fill_n(call.c, tokens * kPanelRows, 0.0f);
  for (int64_t k = 0; k < call.k; ++k)
    for (int i = 0; i < tokens; ++i)
      for (int r = 0; r < kPanelRows; ++r) {
        float& c = call.c[i * kPanelRows + r];
        c = std::fma(x[k * tokens + i], w[k * kPanelRows + r], c);
      }
}

int32_t dot(const uint8_t* w, const int8_t* x, int64_t steps, int tokens) {
  int32_t sum = 0;
  for (int64_t s = 0; s < steps; ++s, w += kPanelRows * 4, x += tokens * 4)
    for (int b = 0; b < 4; ++b) sum += w[b] * x[b];
  return sum;
}

// Row scales: exact int32 over all of k, kept in c between slices.
void tile_row_scale(const TileCall& call) {
  const int tokens = call.act.tokens;
  const int8_t* x = static_cast<const int8_t*>(call.act.q) + call.k_begin * tokens;
  for (int i = 0; i < tokens; ++i)
    for (int r = 0; r < kPanelRows; ++r) {
      float& c = call.c[i * kPanelRows + r];
      const int32_t before = call.first ? call.act.init[i] : std::bit_cast<int32_t>(c);
      const int32_t sum = before + dot(call.q + r * 4, x + i * 4, call.k / 4, tokens);
      c = call.last ? static_cast<float>(sum) * call.row_scale[r] * call.act.scale[i]
                    : std::bit_cast<float>(sum);
    }
}

// One group: c = fma(f32(dot) * weight scale, activation scale, c), then fma(minimum, sum, c).
void tile_group(const TileCall& call, int64_t g, const float* scale) {
  const PackedFormat& f = *call.format;
  const int tokens = call.act.tokens;
  const int64_t k = call.k_begin + g * f.group;
  const int8_t* x = static_cast<const int8_t*>(call.act.q) + k * tokens;
  for (int i = 0; i < tokens; ++i) {
    const float xs = call.act.scale[k / 32 * tokens + i];
    for (int r = 0; r < kPanelRows; ++r) {
      const int32_t sum =
          call.act.init[k / f.group * tokens + i] +
          dot(call.q + g * f.group * kPanelRows + r * 4, x + i * 4, f.group / 4, tokens);
      float& c = call.c[i * kPanelRows + r];
      c = std::fma(static_cast<float>(sum) * scale[r], xs, c);
      if (f.has_min) c = std::fma(scale[kPanelRows + r], call.act.sum[k / f.group * tokens + i], c);
    }
  }
}

void tile(const TileCall& call) {
  const PackedFormat& f = *call.format;
  if (floats(f, call.compute)) return tile_f32(call);
  if (f.group == 0) return tile_row_scale(call);
  if (call.first) std::fill_n(call.c, call.act.tokens * kPanelRows, 0.0f);
  const int stride = kPanelRows * (f.has_min ? 2 : 1);
  for (int64_t g = 0; g < call.k / f.group; ++g) tile_group(call, g, call.scale + g * stride);
}

float silu(float x) {
  const float t = std::min(std::max(-x, -87.0f), 88.0f);
  const float n = std::nearbyintf(t * kLog2E);
  float r = std::fma(n, -kLn2High, t);
  r = std::fma(n, -kLn2Low, r);
  float p = kExp7;
  for (float coefficient : {kExp6, kExp5, kExp4, kExp3, kExp2}) p = std::fma(p, r, coefficient);
  p = std::fma(p, r * r, r) + 1.0f;
  const auto exponent = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  return x / (1.0f + p * std::bit_cast<float>(exponent));
}

void finish(const FinishCall& call) {
  const int outputs = call.epilogue == Epilogue::kSwiglu ? kGateUpRows : call.columns;
  for (int i = 0; i < call.tokens; ++i) {
    const float* c = call.c + i * kPanelRows;
    float* y = call.y + i * call.y_stride;
    const float* residual =
        call.residual != nullptr ? call.residual + i * call.residual_stride : nullptr;
    for (int j = 0; j < outputs; ++j) {
      float v = call.bias != nullptr ? c[j] + call.bias[j] : c[j];
      if (call.epilogue == Epilogue::kSwiglu) {
        const float up = c[j + kGateUpRows];
        v = silu(v) * (call.bias != nullptr ? up + call.bias[j + kGateUpRows] : up);
      }
      y[j] = residual != nullptr ? v + residual[j] : v;
    }
  }
}

}  // namespace

const MatmulKernels kMatmulGeneric = {
    .plan = plan, .quantise = quantise, .expand = expand_kind, .tile = tile, .finish = finish};

}  // namespace ingot::cpu
