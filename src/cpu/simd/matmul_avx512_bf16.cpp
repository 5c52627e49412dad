// The AVX-512 tier with BF16 instructions: bf16 weights meet activations rounded to bf16, two
// products at a time, summed in f32. Everything else is the VNNI tier's.
#include "cpu/simd/matmul_avx512.h"
#include "cpu/simd/tile_avx512.h"

namespace ingot::cpu {

namespace {

bool dots(const PackedFormat& f, Compute compute) {
  return f.kind == PackedKind::kBf16 && compute == Compute::kNative;
}

MatmulPlan plan(const PackedFormat& f, Compute compute, int64_t tokens) {
  MatmulPlan p = kMatmulAvx512Vnni.plan(f, compute, tokens);
  if (dots(f, compute)) p.value_bytes = 2;
  return p;
}

// bf16 [k / 2][tokens][2], rounded to nearest even; k is padded with zeros.
void quantise(const QuantiseCall& call) {
  if (!dots(*call.format, call.compute)) return kMatmulAvx512Vnni.quantise(call);
  const int tokens = call.out.tokens;
  walk_stretches(call, [&](int i, int64_t k) {
    const float* x = call.x + i * call.x_stride + k;
    auto* q = static_cast<uint8_t*>(call.out.q) + (2 * k * tokens + 4 * i);
    const int64_t left = call.k - k;
    const __mmask32 keep = left >= 32 ? 0xffffffffu : (1u << (left > 0 ? left : 0)) - 1;
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(keep), x);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(keep >> 16), x + 16);
    alignas(64) uint32_t words[16];
    _mm512_store_si512(words, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    for (int j = 0; j < 16; ++j) memcpy(q + j * 4 * tokens, words + j, 4);
  });
}

void tile(const TileCall& call) {
  if (!dots(*call.format, call.compute)) return kMatmulAvx512Vnni.tile(call);
  const int tokens = call.act.tokens;
  const Stream from = stream_of(call, call.q, kPanelRows * 64, call.k / 16);
  sums_tile<kDotBf16, 16>(tokens, UpTo14{})(call, from);
}

void expand(const ExpandCall& call) {
  kMatmulAvx512Vnni.expand(call);
}

}  // namespace

const MatmulKernels kMatmulAvx512Bf16 = {
    .plan = plan, .quantise = quantise, .expand = expand, .tile = tile, .finish = finish_avx512};

}  // namespace ingot::cpu
